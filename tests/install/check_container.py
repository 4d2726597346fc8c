#!/usr/bin/env python3
"""check_container.py --source --work: the image of runtime/packaging/docker, built by buildah, which needs no daemon, and in it the projects of a user.

Needs root, buildah and debootstrap, which makes the image of Debian that the Dockerfile begins with, and downloads: Debian's packages, and CMake and Halide from the Python package index. The build
takes what the preset `release` takes. Then the commands and the second Dockerfile of linking.md run. Images and containers are in --work, which is emptied first and last.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

BASE, IMAGE = "localhost/debian:bookworm-slim", "localhost/attune"  # what the page and its Dockerfile call debian:bookworm-slim and attune


def run(*command, **settings):
    print("$", *command, flush=True)
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings)
    if done.returncode:
        print(done.stdout[-20000:])
        raise SystemExit(f"FAILED  {command[0]} ended with {done.returncode}")
    return done.stdout


class Images:
    """buildah, with images and containers in a folder of their own."""

    def __init__(self, work):
        self.work = work
        self.program = ["buildah", "--root", work / "images", "--runroot", work / "running"]

    def __call__(self, command, *arguments):
        isolated = ["--isolation", "chroot"] if command in ("build", "run") else []
        return run(*self.program, command, *isolated, *arguments, cwd=self.work).strip()

    def base(self):
        """Debian 12 by debootstrap. It knows the machine's settings of pip, by which packages come from where they come from here."""
        root = self.work / "debian"
        run("debootstrap", "--variant=minbase", "bookworm", root)
        settings, certificates = pathlib.Path("/etc/pip.conf"), pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        if settings.is_file():
            shutil.copy(certificates, root / "etc/certificates.of.pip")
            (root / "etc/pip.conf").write_text(settings.read_text().replace(str(certificates), "/etc/certificates.of.pip"))
        container = self("from", "scratch")
        self("copy", "--quiet", container, root, "/")
        self("commit", "--quiet", "--rm", container, BASE)
        shutil.rmtree(root)

    def inside(self, image, folder, *command):
        """What `docker run --volume <folder>:/project <image> <command>` does; without a command, the image's own."""
        container = self("from", "--pull=never", image)
        said = self("run", "--volume", f"{folder}:/project", container, "--", *(command or json.loads(self("inspect", "--type", "image", image))["OCIv1"]["config"]["Cmd"]))
        self("rm", container)
        print(said)
        return said


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "work"):
        parser.add_argument("--" + name, type=pathlib.Path, required=True)
    options = parser.parse_args()
    if os.getuid() or not shutil.which("buildah") or not shutil.which("debootstrap"):
        print("skipped: needs root, buildah and debootstrap")
        return 77
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    images = Images(options.work)
    images.base()
    images("build", "--pull=never", "--build-arg", f"BASE={BASE}", "--file", options.source / "runtime/packaging/docker/Dockerfile", "--tag", IMAGE, options.source)

    projects = options.work / "projects"
    projects.mkdir()
    images.inside(IMAGE, projects, "cp", "-r", "/usr/local/share/attune/00_skeleton", "my_attention")
    shutil.copytree(options.source / "tests/install/small", projects / "small")
    for project in ("my_attention", "small"):
        images.inside(IMAGE, projects / project)
        images.inside(IMAGE, projects / project, "build/app")

    shutil.rmtree(projects / "my_attention/build")
    (projects / "Dockerfile").write_text(re.search(r"^```dockerfile\n(.*?)^```$", (options.source / "runtime/docs/linking.md").read_text(), re.M | re.S)[1])
    images("build", "--pull=never", "--file", projects / "Dockerfile", "--tag", "localhost/app", projects / "my_attention")
    images.inside("localhost/app", projects)
    print(images("images"))
    shutil.rmtree(options.work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
