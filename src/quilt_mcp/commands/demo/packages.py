"""The objects in S3 that make up a Quilt package."""

import hashlib
import json

CREATED = 1_747_663_200  # the names of the pointers are in seconds since 1970
POINTERS = ".quilt/named_packages"
MANIFESTS = ".quilt/packages"


def make_package(name: str) -> dict[str, str]:
    """Return the objects of a package with one revision: its manifest, and the pointers to it."""
    manifest = json.dumps({"version": "v0", "message": f"Created {name}"}) + "\n"
    top_hash = hashlib.sha256(manifest.encode()).hexdigest()
    return {
        f"{POINTERS}/{name}/{CREATED}": top_hash,
        f"{POINTERS}/{name}/latest": top_hash,
        f"{MANIFESTS}/{top_hash}": manifest,
    }
