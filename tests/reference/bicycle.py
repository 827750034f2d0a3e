"""The Whipple bicycle as four free bodies in space axes, in NumPy: Newton's and Euler's laws, three hinges, two contacts.

Each body R, B, H, F has a velocity and an angular velocity of its own, 24 numbers w. Hinges and contacts are 21 rows J of
them, u = (φ̇, δ̇, θ̇_R) three more; the multipliers of the rows are the forces of constraint. Nothing is reduced:

    J w = 0 ,    M ẇ − Jᵀ λ = f ,    J ẇ = −J̇ w .

Bodies are turned by their own angular velocities, J̇ w is a complex step along that.
"""

from dataclasses import dataclass

import numpy as np

from tests.reference.ball import rotation

R, B, H, F = range(4)
AXLE = np.array([0, 1.0, 0])


@dataclass
class Motion:
    """w: velocities of the centres of mass and angular velocities, space axes, (4, 2, 3); u̇; forces of the ground (2, 3)."""

    w: np.ndarray
    u_dot: np.ndarray
    ground: np.ndarray


def motion(parts, q, u, torques=(0.0, 0.0, 0.0)):
    """The motion in the state q = (quaternion, rear hub, (δ, θ_R, θ_F)) with the rates u, under (T_φ, T_δ, T_R).

    `parts` is anything with the parameters of `systems.WhippleBicycle`.
    """
    turns = _orientations(parts, q)
    rows = _rows(parts, turns)
    w = np.linalg.solve(rows, np.concatenate([np.zeros(21), u]))
    spins = w.reshape(4, 2, 3)[:, 1]
    ahead = turns + 1e-30j * np.stack([_hat(spin) for spin in spins]) @ turns
    bias = (_rows(parts, ahead) @ w).imag / 1e-30
    mass, force = _laws(parts, turns, spins, torques, rows[21:])
    joints = rows[:21]
    whole = np.block([[mass, -joints.T], [joints, np.zeros((21, 21))]])
    found = np.linalg.solve(whole, np.concatenate([force, -bias[:21]]))
    return Motion(w.reshape(4, 2, 3), rows[21:] @ found[:24] + bias[21:], found[39:].reshape(2, 3))


def _orientations(parts, q):
    steer, rear, front = np.asarray(q[2])
    frame = rotation(np.asarray(q[0]))
    fork = frame @ _turned(_steer_axis(parts), steer)
    return np.stack([frame @ _turned(AXLE, rear), frame, fork, fork @ _turned(AXLE, front)])


def _steer_axis(parts):
    """The unit vector along the steer axis, downwards: (0, 0, −1) without a tilt."""
    return np.array([np.sin(parts.steer_axis_tilt), 0, -np.cos(parts.steer_axis_tilt)])


def _rows(parts, turns):
    """Rows that act on w: hinges (5 each), rear and front contact (3 each), then lean, steer and the rear wheel's rate."""
    foot = np.array([parts.wheel_base + parts.trail, 0, 0])
    rear_hub, front_hub = np.array([0, 0, parts.rear_radius]), _front_hub(parts)
    coms = [rear_hub, np.asarray(parts.frame_com), np.asarray(parts.fork_com), front_hub]
    steer = _steer_axis(parts)
    hinges = [(B, R, rear_hub, AXLE), (B, H, foot, steer), (H, F, front_hub, AXLE)]
    rows = [_hinge(turns, coms, *hinge) for hinge in hinges]
    down, ahead = zip(*(_contact(turns[body] @ AXLE) for body in (R, F)), strict=True)
    radii = (parts.rear_radius, parts.front_radius)
    rows += [_point(w, r * d) for w, r, d in zip((R, F), radii, down, strict=True)]
    rows += [_turn(B, ahead[0]), _turn(H, turns[B] @ steer) - _turn(B, turns[B] @ steer)]
    rows += [_turn(R, turns[B] @ AXLE) - _turn(B, turns[B] @ AXLE)]
    return np.concatenate(rows)


def _front_hub(parts):
    return np.array([parts.wheel_base, 0, parts.front_radius])


def _hinge(turns, coms, i, j, place, axis):
    """Rows for a common point of both bodies, and for no rotation of j against i about two axes perpendicular to the
    hinge."""
    arms = [turns[k] @ (place - coms[k]) for k in (i, j)]
    across = np.linalg.svd(axis[None])[2][1:]
    turning = [_turn(j, turns[i] @ a) - _turn(i, turns[i] @ a) for a in across]
    return np.concatenate([_point(j, arms[1]) - _point(i, arms[0]), *turning])


def _contact(axle):
    """From the hub, the unit vector to the lowest point of the wheel, and the horizontal one perpendicular to the axle."""
    across = axle * axle[2] - np.array([0, 0, 1.0])
    down = across / np.sqrt(across @ across)
    return down, np.cross(down, axle)


def _point(body, arm):
    """The row of the velocity v + ω × arm of a point of a body, acting on w."""
    rows = np.zeros((3, 4, 2, 3), np.result_type(arm, 1.0))
    rows[:, body, 0], rows[:, body, 1] = np.eye(3), -_hat(arm)
    return rows.reshape(3, 24)


def _turn(body, axis):
    """The row of ω · axis, acting on w."""
    row = np.zeros((1, 4, 2, 3), np.result_type(axis, 1.0))
    row[0, body, 1] = axis
    return row.reshape(1, 24)


def _laws(parts, turns, spins, torques, rates):
    """M and f: weights, −ω × I ω, and the torques with their reactions."""
    masses = [parts.rear_mass, parts.frame_mass, parts.fork_mass, parts.front_mass]
    own = [parts.rear_inertia, parts.frame_inertia, parts.fork_inertia, parts.front_inertia]
    matrix, force = np.zeros((4, 2, 3, 4, 2, 3)), np.zeros((4, 2, 3))
    for k, (mass, inertia) in enumerate(zip(masses, map(np.asarray, own), strict=True)):
        inertia = turns[k] @ (np.diag(inertia) if inertia.ndim == 1 else inertia) @ turns[k].T
        matrix[k, 0, :, k, 0], matrix[k, 1, :, k, 1] = mass * np.eye(3), inertia
        force[k] = [0, 0, -mass * parts.gravity], -np.cross(spins[k], inertia @ spins[k])
    return matrix.reshape(24, 24), force.reshape(24) + np.asarray(torques) @ rates


def _hat(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def _turned(axis, angle):
    skew = _hat(axis)
    return np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew
