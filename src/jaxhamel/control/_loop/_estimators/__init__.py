"""Estimators of the state in a closed loop: an extended Kalman filter and a moving horizon, on the group."""
