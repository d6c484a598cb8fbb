"""Teacher and student of one architecture."""

from __future__ import annotations

import numpy as np
import pytest

from nqf_pipeline.models import MLP, Architecture, Custom, Diagonal, QueryKey, WordContext
from nqf_pipeline.tasks import Digits, Teacher, TeacherNetwork
from nqf_pipeline.tasks.base import TaskError


def test_targets_are_the_outputs_of_a_network(architecture: Architecture) -> None:
    if architecture.name == "fourier_mlp":
        pytest.skip("its inputs are the features of one Fourier target")
    problem = TeacherNetwork(scale=0.5, samples=30, test_samples=20).problem(architecture, np.random.default_rng(0))
    population = problem.population
    for x, y in ((problem.inputs, problem.targets), (problem.test_inputs, problem.test_targets)):
        np.testing.assert_allclose(architecture.apply(population.teacher, x), y, rtol=1e-12)
    assert population.teacher.shape == (architecture.unit_size, architecture.width)
    assert 0.3 < population.teacher.std() < 0.7


def test_a_weak_teacher_is_a_quadratic_form_and_a_strong_one_is_not() -> None:
    shares = []
    for scale in (0.01, 1.0):
        problem = TeacherNetwork(scale=scale, samples=400).problem(MLP(inputs=4, outputs=2), np.random.default_rng(0))
        shares.append(problem.moments.floor / np.mean((problem.targets**2).sum(0)))
    assert shares[0] < 1e-6
    assert shares[1] > 0.05


def test_the_teacher_may_be_wider_and_the_inputs_stay() -> None:
    student = MLP(inputs=4, outputs=2, width=3)
    same, wider = (TeacherNetwork(units=units, samples=20).problem(student, np.random.default_rng(0)) for units in (None, 50))
    assert wider.population.teacher.shape == (6, 50)
    assert wider.initial_scale.shape == same.initial_scale.shape == (6, 1)
    np.testing.assert_array_equal(wider.inputs, same.inputs)


@pytest.mark.parametrize(
    ("task", "architecture", "says"),
    [
        (Digits(), MLP(inputs=64, outputs=1), "finds none to draw"),
        (Teacher(inputs="white"), MLP(), "inputs: gaussian"),
        (Teacher(label_noise=0.1), MLP(), "label_noise: 0"),
        (TeacherNetwork(), WordContext(), "one-hot"),
        (TeacherNetwork(), Custom(path="a.py:f", unit_size=2, inputs=2), "expanded at given samples"),
    ],
)
def test_what_cannot_be_drawn_is_refused(task, architecture, says) -> None:
    with pytest.raises(TaskError, match=says):
        task.check_fresh(architecture)


def test_what_can_be_drawn_is_not() -> None:
    for task in (Teacher(), TeacherNetwork()):
        for architecture in (MLP(), QueryKey(), Diagonal()):
            task.check_fresh(architecture)
