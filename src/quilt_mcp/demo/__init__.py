"""A small company on an AWS account and a Quilt stack that exist in this process only: `world.demo_world` enters it."""
