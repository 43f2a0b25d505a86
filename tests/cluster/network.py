"""Hosts of a cluster on one machine: network namespaces behind a bridge."""

from __future__ import annotations

import os
import shutil
import subprocess


def ip(*words: object) -> None:
    """Run ``ip``; `subprocess.CalledProcessError` if it fails."""
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def lack() -> str | None:
    """Why there can be no namespaces here; None if there can be."""
    if not shutil.which("ip"):
        return "found no program ip (Debian: apt-get install iproute2)"
    name = f"t{os.getpid()}"
    try:
        ip("netns", "add", name)
        try:
            ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b")
            ip("link", "delete", f"{name}a")
            ip("link", "add", name, "type", "bridge")
            ip("link", "delete", name)
        finally:
            ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"found no right to make network namespaces ({error.stderr.decode().strip()})"
    return None


class Network:
    """A bridge with an address of its own, and namespaces with one link each to it.

    Parameters
    ----------
    hosts
        Number of namespaces.
    """

    def __init__(self, hosts: int) -> None:
        number = os.getpid()
        self._name = f"sa{number}"
        # Test networks of RFC 2544, one of 512 for each process.
        self._prefix = f"198.{18 + number // 256 % 2}.{number % 256}"
        self.address = f"{self._prefix}.1"
        self.hosts = [f"{self._prefix}.{10 + k}" for k in range(hosts)]
        self._made: list[tuple[object, ...]] = []
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        self._add("link", self._name, "type", "bridge")
        ip("address", "add", f"{self.address}/24", "dev", self._name)
        ip("link", "set", self._name, "up")
        for k, host in enumerate(self.hosts):
            space, outside, inside = self.namespace(k), f"{self._name}o{k}", f"{self._name}i{k}"
            self._add("netns", space)
            self._add("link", outside, "type", "veth", "peer", "name", inside)
            ip("link", "set", outside, "master", self._name, "up")
            ip("link", "set", inside, "netns", space)
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "address", "add", f"{host}/24", "dev", inside)
            ip("-n", space, "link", "set", inside, "up")

    def _add(self, kind: str, name: str, *others: object) -> None:
        ip(kind, "add", name, *others)
        self._made.append((kind, "delete", name))

    def namespace(self, k: int) -> str:
        """Name of a host's namespace."""
        return f"{self._name}w{k}"

    def set_link(self, k: int, state: str) -> None:
        """Cut a host's link ("down"), or mend it ("up")."""
        ip("link", "set", f"{self._name}o{k}", state)

    def close(self) -> None:
        """Remove the namespaces and the bridge."""
        while self._made:
            subprocess.run(["ip", *map(str, self._made.pop())], check=False, capture_output=True)
