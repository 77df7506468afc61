"""A small company with an AWS account and a Quilt stack that exist only in this process; see `world.demo_world`."""
