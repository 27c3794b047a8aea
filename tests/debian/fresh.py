"""A fresh Debian in a folder: debootstrap makes each suite once, every use works in an overlay above it, so that what it does to the
system can be seen and thrown away. Without systemd it is a chroot; booted, it has a systemd of its own as process 1, with its own
processes, network and cgroups. Needs root.
"""
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

BASES = Path(__file__).resolve().parents[2] / ".local" / "debian"
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
INCLUDE = "ca-certificates,systemd,systemd-sysv,dbus,iproute2,procps"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", PATH]

MOUNT = """set -e
lower=$1 above=$2; shift 2
mkdir -p "$above/upper" "$above/work" "$above/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$above/upper,workdir=$above/work" "$above/root"
dir=$above/root
mount -t proc proc "$dir/proc"
"""
CHROOT = MOUNT + """mount --bind /sys "$dir/sys"; mount --rbind /dev "$dir/dev"
exec chroot "$dir" "$@"
"""
BOOT = MOUNT + """mount -t sysfs -o ro sys "$dir/sys"
mount --bind "$dir/proc/sys" "$dir/proc/sys"; mount -o remount,bind,ro "$dir/proc/sys"  # the kernel's settings are the machine's
mount -t cgroup2 cgroup2 "$dir/sys/fs/cgroup"
mount -t tmpfs -o mode=755 dev "$dir/dev"
for name in null zero full random urandom tty; do touch "$dir/dev/$name"; mount --bind "/dev/$name" "$dir/dev/$name"; done
mkdir "$dir/dev/shm" "$dir/dev/pts"; mount -t tmpfs shm "$dir/dev/shm"; mount -t devpts -o newinstance,ptmxmode=0666 pts "$dir/dev/pts"
ln -s pts/ptmx "$dir/dev/ptmx"; ln -s /proc/self/fd "$dir/dev/fd"
mount -t tmpfs -o mode=755 run "$dir/run"; mount -t tmpfs tmp "$dir/tmp"
hostname fresh; ip link set lo up 2>/dev/null || chroot "$dir" ip link set lo up
cd "$dir"; pivot_root . mnt  # in a chroot nobody may make a user namespace
# Shared: systemd mounts the credentials of a unit from a namespace of its own, and leaves it to a container's manager that others see the mount.
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'umount -l /mnt; mount --make-rshared /; exec /lib/systemd/systemd --system'
"""
# What any system that runs writes; of no package.
BESIDE = re.compile(r"^/(proc|sys|dev|run|tmp|root|var/(cache|log|tmp|lib/(apt|dpkg|systemd|mysql|dbus|ucf|misc)))(/|$)"
                    r"|^/etc/(machine-id|ld\.so\.cache|\.pwd\.lock|resolv\.conf|(passwd|group|shadow|gshadow|subuid|subgid)-?)$"
                    r"|/__pycache__(/|$)|\.pyc$")


def base(suite):
    """The folder of a suite as debootstrap left it; made when it is not there yet."""
    made = BASES / suite
    if made.exists():
        return made
    mirror = re.search(r"^URIs:\s*(\S+)", SOURCES.read_text(), re.MULTILINE)[1]
    fresh = made.with_name(f"{suite}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={INCLUDE}", suite, fresh, mirror], check=True, stdout=subprocess.DEVNULL)
    for path in Path("/etc/apt/apt.conf.d").glob("99*"):
        shutil.copy(path, fresh / "etc/apt/apt.conf.d")
    local = Path("/usr/local/share/ca-certificates")
    if local.exists():
        shutil.copytree(local, fresh / "usr/local/share/ca-certificates", dirs_exist_ok=True)
        subprocess.run(["chroot", fresh, "update-ca-certificates"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fresh.rename(made)
    return made


class Debian:
    """`above` keeps what was changed; without it that is thrown away at the end."""

    def __init__(self, suite, above=None):
        self.lower = base(suite)
        self._kept = above is not None
        self.above = Path(above or tempfile.mkdtemp(prefix=f"{suite}-", dir=BASES))
        self.upper = self.above / "upper"
        self._manager = None
        for name in ("resolv.conf", "hosts"):
            self.put(f"/etc/{name}", Path("/etc", name).read_bytes())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.halt()
        if not self._kept:
            shutil.rmtree(self.above)

    def put(self, path, content):
        """A file of the overlay; not while a command runs in it."""
        target = self.upper / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def _argv(self, argv):
        if self._manager:
            return ["nsenter", "-t", str(self._first()), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", *ENVIRONMENT, *argv]
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "bash", "-c", CHROOT, "bash",
                self.lower, self.above, *ENVIRONMENT, *argv]

    def run(self, *argv, check=True):
        """What the command prints; its failure is one of ours, unless `check` is false: then (exit code, what it prints)."""
        done = subprocess.run(self._argv(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if not check:
            return done.returncode, done.stdout
        if done.returncode:
            raise AssertionError(f"{' '.join(map(str, argv))}: exit code {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout

    def sh(self, script, **how):
        return self.run("bash", "-euo", "pipefail", "-c", script, **how)

    def files(self):
        """What is there, beside what any system that runs writes."""
        return {path for path in self.sh("find / -xdev").splitlines() if not BESIDE.search(path)}

    def accounts(self):
        return self.sh("cut -d: -f1 /etc/passwd /etc/group | sort")

    # ---- with systemd ----

    def _first(self):
        """The machine's number of process 1 in there."""
        pid = self._manager.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def boot(self):
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--net", "--cgroup", "--propagation", "private",
                "bash", "-c", BOOT, "bash", self.lower, self.above]
        self._manager = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.until("[[ $(systemctl is-system-running || true) =~ ^(running|degraded)$ ]]", 60)  # in a container one of Debian's own units may fail

    def until(self, script, seconds):
        """Polls until the script succeeds."""
        end = time.monotonic() + seconds
        while True:
            if self._manager.poll() is not None:
                raise AssertionError(f"systemd ended\n{self._manager.stderr.read()}")
            try:
                code, told = self.sh(script, check=False)
            except (IndexError, OSError):
                code, told = 1, "process 1 is not there"
            if code == 0:
                return told
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {script}\n{told}")
            time.sleep(0.2)

    def halt(self):
        if self._manager:
            self._manager.kill()  # and with it all that is in there
            self._manager.wait()
            self._manager = None
