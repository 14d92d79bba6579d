"""The pods' tools: of the release of the stack's image, signed by Debian, with all they load."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.setup import image, tools

BOOKWORM = {"ID": "debian", "VERSION_CODENAME": "bookworm", "PRETTY_NAME": "Debian 12"}


def test_the_machines_mirrors_serve_the_release_with_its_updates_and_nothing_else() -> None:
    lines = tools._of_release(
        [
            "Debian|bookworm|mirror+file:/etc/apt/mirrors/debian.list/",
            "Debian|bookworm|mirror+file:/etc/apt/mirrors/debian.list/",
            "Debian|bookworm-updates|http://mirror.test/debian/",
            "Debian|bookworm-security|http://mirror.test/debian-security/",
            "Debian|sid|http://unstable.test/debian/",
            "Debian|rc-buggy|http://experimental.test/debian/",
            "Debian Backports|bookworm-backports|http://backports.test/debian/",
            "Debian|bookworm|cdrom:[Debian GNU Linux 12]/",
            "Docker|bookworm|http://docker.test/linux/debian/",
            "|bookworm|http://never-updated.test/debian/",
        ]
    )
    assert {tuple(re.sub(r"\[.*?\] ", "", line).split()) for line in lines} == {
        ("deb", "mirror+file:/etc/apt/mirrors/debian.list/", tools.RELEASE, "main"),
        ("deb", "http://mirror.test/debian/", f"{tools.RELEASE}-updates", "main"),
        ("deb", "http://mirror.test/debian-security/", f"{tools.RELEASE}-security", "main"),
        ("deb", "http://unstable.test/debian/", tools.RELEASE, "main"),
        ("deb", "mirror+file:/etc/apt/mirrors/debian.list/", "forky", "main"),
        ("deb", "http://unstable.test/debian/", "forky", "main"),
    }
    assert all("signed-by" in line and "trusted" not in line for line in lines)


def test_a_mirror_without_debians_signature_gives_no_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own apt trusts this mirror; that must not count for another release."""
    mirror = tmp_path / "mirror"
    for codename in ("bookworm", tools.RELEASE):
        _archive(mirror, codename)
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{mirror} bookworm main\n")
    for directory in ("lists/partial", "cache/archives/partial"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{tmp_path}/lists";\nDir::Cache "{tmp_path}/cache";\n'
        'APT::Sandbox::User "root";\n'
    )
    (tmp_path / "keyring.gpg").touch()
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache-of-the-lab"))
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: BOOKWORM)
    monkeypatch.setattr(tools, "_KEYRING", tmp_path / "keyring.gpg")
    with pytest.raises(LabError, match=r"is not signed.*debian-archive-keyring"):
        tools.unpacked()
    assert list((tmp_path / "cache-of-the-lab/rackrate/tools").iterdir()) == []


def _archive(mirror: Path, codename: str) -> None:
    """An archive with an index of one package, and no signature."""
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    suite = mirror / "dists" / codename
    index = suite / "main" / f"binary-{architecture}" / "Packages"
    index.parent.mkdir(parents=True)
    index.write_text(f"Package: iperf3\nVersion: 1\nArchitecture: {architecture}\n")
    digest = hashlib.sha256(index.read_bytes()).hexdigest()
    (suite / "Release").write_text(
        f"Origin: Debian\nCodename: {codename}\nComponents: main\nArchitectures: {architecture}\n"
        f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n"
        f" {digest} {index.stat().st_size} {index.relative_to(suite)}\n"
    )


def test_a_library_of_the_machines_own_release_gets_into_no_image(tmp_path: Path) -> None:
    """Beside a program of another release it may not load, or not be what AWS's pods load."""
    program = shutil.which("cat")
    assert program is not None
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(/\S*/ld-linux\S*)", listing)
    assert match is not None
    for source, directory in ((program, "usr/bin"), (match[1], "usr/lib64")):
        (tmp_path / directory).mkdir(parents=True)
        shutil.copy(source, tmp_path / directory)
    with pytest.raises(RuntimeError, match=r"lack a library of cat:(?s:.*)libc\.so"):
        image._libraries_of(tmp_path / "usr/bin/cat", tmp_path)
