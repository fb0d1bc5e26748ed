"""Real ssh between the hosts of a test: a key that all of them accept, known host keys, and OpenSSH's server on each."""

import os
import subprocess

CONFIG = "/srv/ssh/config"
AGENT = f"ssh -F {CONFIG} -o BatchMode=yes"


def key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path.read_text(), path.with_suffix(".pub").read_text()


def start(hosts, folder, trusted=None):
    """`trusted` are the hosts (by number) that accept the key; all of them by default."""
    (private, public), (host_private, host_public) = key(folder / "user"), key(folder / "server")
    known = "".join(f"{name} {host_public}" for name in hosts.names)
    for index, host in enumerate(hosts.all):
        ours = host.inside("/srv/ssh")
        ours.mkdir()
        accepts = public if trusted is None or index in trusted else ""
        files = {
            "user": private, "server": host_private, "known": known, "accepted": accepts,
            "config": "IdentityFile /srv/ssh/user\nIdentitiesOnly yes\nUserKnownHostsFile /srv/ssh/known\nStrictHostKeyChecking yes\nConnectTimeout 10\n",
            "server_config": "HostKey /srv/ssh/server\nAuthorizedKeysFile /srv/ssh/accepted\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                             "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\nMaxStartups 100\n",
        }
        for name, text in files.items():
            (ours / name).write_text(text)
            os.chmod(ours / name, 0o600)
        host.run(["sh", "-c", "mount -t tmpfs tmpfs /run && mkdir /run/sshd && /usr/sbin/sshd -f /srv/ssh/server_config"], cwd="/").expect(0)
