"""One link of a robot from a file, identified from a log of its torques; paths that lead into arrays."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import identify
from jaxhamel.identify._parameters._paths import leaf_of, with_leaf
from jaxhamel.mechanics._description._declarations import state_of

ARM = """
<robot name="arm">
  <link name="world"/>
  <link name="upper"><inertial>
    <origin xyz="0 0 -.3"/><mass value="2"/><inertia ixx=".06" iyy=".06" izz=".01"/></inertial></link>
  <link name="fore"><inertial>
    <origin xyz="0 0 -.2"/><mass value="1"/><inertia ixx=".02" iyy=".02" izz=".01"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="world"/><child link="upper"/><axis xyz="0 1 0"/></joint>
  <joint name="elbow" type="{elbow}"><parent link="upper"/><child link="fore"/>
    <origin xyz="0 0 -.6"/><axis xyz="0 1 0"/><limit effort="9" velocity="9"/></joint>
</robot>
"""


@pytest.fixture
def read(tmp_path):
    def arm(elbow="continuous"):
        (tmp_path / "arm.urdf").write_text(ARM.format(elbow=elbow), encoding="utf-8")
        return jaxhamel.read_urdf(tmp_path / "arm.urdf")

    return arm


def test_units_of_joints(read):
    """A hinge has an angle and a slide a place, whatever their number is."""
    for elbow, unit in (("continuous", "rad"), ("prismatic", "m")):
        parts = state_of(read(elbow))
        assert parts.q[0].units(2) == ("rad", unit)
        assert parts.u[0].units(2) == ("rad/s", f"{unit}/s")


def test_finds_the_fore_arm(read):
    """The motion in a plane shows m, the moment of inertia about y and the centre of mass in the plane."""
    arm, ts = read(), np.linspace(0.0, 2.0, 101)
    real = with_leaf(with_leaf(arm, "masses.2", 1.3), "coms.2", jnp.array([0.01, 0.0, -0.22]))
    torques = np.stack([20.0 * np.sin(2.0 * ts), 3.0 * np.sin(5.0 * ts)], axis=1)
    log = jaxhamel.Recorded(ts, torques, "held")
    q = jaxhamel.simulate(real, jnp.array([0.5, 1.0]), jnp.zeros(2), jnp.asarray(ts), log).q
    run = identify.Run(ts, {"shoulder": q[:, 0], "elbow": q[:, 1]}, log)
    encoders = [
        identify.Coordinate(i, name=name, unit="rad", noise=1e-4)
        for i, name in enumerate(arm.joint_names)
    ]
    unknown = identify.BodyInertia("masses.2", "coms.2", "inertias.2")
    estimate = identify.fit(identify.Problem(arm, [unknown], encoders, [run]))
    assert estimate.converged
    found = dict(zip(estimate.names, estimate.values, strict=True))
    for name, value in {
        "masses.2": 1.3,
        "coms.2.x": 0.01,
        "coms.2.z": -0.22,
        "inertias.2.yy": 0.02,
    }.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)
    assert {"inertias.2.xz", "coms.2.y"} <= {x.words.split()[-1][:-1] for x in estimate.flat}
    np.testing.assert_array_equal(leaf_of(estimate.system, "masses")[:2], arm.masses[:2])


def test_parts_of_arrays(read):
    arm = read()
    assert float(leaf_of(arm, "coms.2.2")) == -0.2
    changed = with_leaf(arm, "coms.2.2", 0.5)
    np.testing.assert_array_equal(changed.coms, arm.coms.at[2, 2].set(0.5))
    assert eqx.tree_equal(with_leaf(changed, "coms.2.2", -0.2), arm)
    with pytest.raises(IndexError):
        leaf_of(arm, "masses.3")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            [identify.Positive("masses.3")],
            r"`masses\.3` is no parameter of MultibodyTree; it has .*masses",
        ),
        (
            [identify.Positive("masses.2"), identify.Free("masses")],
            r"has masses\.2 with masses more than once",
        ),
        (
            [identify.Positive("masses.2"), identify.Free("masses.2")],
            r"has masses\.2 more than once",
        ),
        (
            [identify.Free("coms", frozen=np.ones((3, 2), bool))],
            r"`frozen` of `coms` .* shape \(3, 3\)",
        ),
    ],
)
def test_messages(read, parameters, message):
    run = identify.Run([0.0, 0.1, 0.2], {"elbow": [0.0, 0.1, 0.2]})
    elbow = identify.Coordinate(1, name="elbow", unit="rad", noise=1e-4)
    with pytest.raises(ValueError, match=message):
        identify.Problem(read(), parameters, [elbow], [run])
