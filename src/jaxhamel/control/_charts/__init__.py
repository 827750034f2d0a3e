"""The charts of a collocation, and the derivatives of its equations by the nodes about which they are taken."""
