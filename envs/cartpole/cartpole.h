/* The physics of CartPole-v1, apart from episodes and rows, so that a test can compare it bit for
 * bit. */
#ifndef ACORN_ENVS_CARTPOLE_CARTPOLE_H
#define ACORN_ENVS_CARTPOLE_CARTPOLE_H

/* Moves the state on by 0.02 s (explicit Euler) with the cart pushed left (0) or right (1).
 * Shapes: state: (4) = cart position, cart velocity, pole angle, pole angular velocity.
 * Units: m, m/s, rad, rad/s. Source: Barto, Sutton, Anderson 1983; Gymnasium 1.x, CartPole-v1. */
void cartpole_advance(double state[4], int action);

/* Whether the cart has left the track or the pole has fallen. */
int cartpole_fallen(const double state[4]);

#endif
