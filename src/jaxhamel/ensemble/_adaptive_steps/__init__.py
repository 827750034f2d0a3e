"""Integration of an ensemble by adaptive steps, chosen for each trajectory separately, and its derivatives."""
