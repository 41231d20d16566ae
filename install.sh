#!/bin/sh
# Builds Keyrack from this checkout and puts the one binary in place. Safe to run again: it replaces what it installed.
set -eu

usage() {
  cat <<'USAGE'
usage: ./install.sh [--prefix DIR] [--systemd] [--start] [--uninstall]

  --prefix DIR   put the binary into DIR/bin (default: /usr/local for root, ~/.local for others)
  --systemd      also write a hardened unit, keyrack.service; it is not started
  --start        with --systemd: enable and start it
  --uninstall    remove the binary and the unit; data is left alone

KEYRACK_UNIT_DIR names another folder for the unit; KEYRACK_STATE_DIR another data dir (/var/lib/keyrack).
USAGE
}

fail() {
  echo "install.sh: $1" >&2
  exit "${2:-1}"
}

prefix=
systemd=no
start=no
uninstall=no
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -ge 2 ] || fail "--prefix needs a folder" 2; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --systemd) systemd=yes ;;
    --start) start=yes ;;
    --uninstall) uninstall=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" 2 ;;
  esac
  shift
done

root=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then
  prefix=${prefix:-/usr/local}
else
  prefix=${prefix:-$HOME/.local}
fi
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
binary=$prefix/bin/keyrack
unit_dir=${KEYRACK_UNIT_DIR:-/etc/systemd/system}
unit=$unit_dir/keyrack.service
state=${KEYRACK_STATE_DIR:-/var/lib/keyrack}

[ "$start" = no ] || [ "$systemd" = yes ] || fail "--start goes with --systemd" 2

quiet_systemctl() {
  if command -v systemctl >/dev/null 2>&1; then systemctl "$@" >/dev/null 2>&1 || true; fi
}

remove() {
  rm -f "$1" || fail "$1 cannot be removed; run this as the user that installed it"
  echo "removed $1"
}

if [ "$uninstall" = yes ]; then
  # Only the unit that runs this binary: another prefix's server goes on running.
  if [ -f "$unit" ] && grep -qxF "ExecStart=$binary serve" "$unit"; then
    quiet_systemctl disable --now keyrack.service
    remove "$unit"
    quiet_systemctl daemon-reload
  elif [ -f "$unit" ]; then
    echo "left $unit alone: it runs another binary"
  fi
  if [ -f "$binary" ]; then remove "$binary"; fi
  echo "Data was left alone: $state and every other data dir are as they were."
  exit 0
fi

[ "$(uname -s)" = Linux ] || fail "Keyrack's binary is built on Linux; this is $(uname -s)."
case $(uname -m) in
  x86_64 | aarch64) ;;
  *) fail "There is no Node for $(uname -m): Keyrack runs on x86_64 and aarch64." ;;
esac
if ldd --version 2>&1 | grep -qi musl; then fail "Keyrack needs glibc; this system has musl."; fi
command -v npm >/dev/null 2>&1 || fail "npm is missing. Install Node 20 or newer (for example: apt-get install nodejs npm), then run this again."
command -v tar >/dev/null 2>&1 || fail "tar is missing. Install it, then run this again."
if [ "$systemd" = yes ]; then
  [ "$(id -u)" = 0 ] || fail "--systemd writes to $unit_dir: run it as root."
  [ -d "$unit_dir" ] || fail "$unit_dir is not there: this machine does not seem to use systemd."
  # A unit reads spaces, quotes and percent signs in its own way.
  case $binary$state in *[!A-Za-z0-9/._+-]*) fail "for a unit, $binary and $state may hold only letters, digits and / . _ + -" 2 ;; esac
  case $state in /*/*) ;; *) fail "KEYRACK_STATE_DIR must be a whole path such as /var/lib/keyrack" 2 ;; esac
fi

mkdir -p "$prefix/bin" 2>/dev/null || fail "$prefix/bin cannot be made. Choose another place with --prefix."
[ -w "$prefix/bin" ] || fail "$prefix/bin is not writable. Choose another place with --prefix."

cd "$root"
# npm ci empties node_modules first, through a link too: somebody else's folder would be gone.
[ ! -L node_modules ] || [ -x node_modules/.bin/node ] || fail "node_modules is a link to another folder: remove the link, then run this again."
log=$(mktemp)
trap 'rm -f "$log" "$binary.new"' EXIT
if [ ! -L node_modules ] && { [ ! -x node_modules/.bin/node ] || [ package-lock.json -nt node_modules/.package-lock.json ]; }; then
  echo "installing what the build needs (npm ci) …"
  npm ci --no-audit --no-fund >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "npm ci failed; its last lines are above."; }
fi
echo "building the binary …"
npm run -s build >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "the build failed; its last lines are above."; }

# Beside the old one, tried there, and then over it: a running server keeps its file, and nobody meets half a binary or
# one that does not run.
cp dist/keyrack "$binary.new" || fail "$binary cannot be written. Choose another place with --prefix."
chmod 755 "$binary.new"
version=$("$binary.new" version) || fail "the new binary does not run on this machine; what was installed before is untouched."
mv -f "$binary.new" "$binary"
echo "installed keyrack $version as $binary"

if [ "$systemd" = yes ]; then
  if [ -n "${KEYRACK_UNIT_DIR:-}" ]; then
    echo "the unit is written elsewhere: the user keyrack it names was not made"
  elif ! id keyrack >/dev/null 2>&1; then
    useradd --system --home-dir "$state" --shell /usr/sbin/nologin keyrack || fail "the user keyrack cannot be made."
    echo "made the system user keyrack"
  fi
  # systemd makes a folder in /var/lib by itself, and only there.
  case $state in
    /var/lib/*) state_directory="StateDirectory=${state#/var/lib/}" ;;
    *)
      state_directory="# $state was made by install.sh"
      if [ -z "${KEYRACK_UNIT_DIR:-}" ]; then
        [ -d "$state" ] || install -d -m 0700 -o keyrack -g keyrack "$state" || fail "$state cannot be made."
      fi
      ;;
  esac
  umask 022
  cat >"$unit.new" <<UNIT
[Unit]
Description=Keyrack, the control plane for API keys
Documentation=file://$root/docs/operate.md
After=network-online.target
Wants=network-online.target

[Service]
Type=simple
User=keyrack
Group=keyrack
ExecStart=$binary serve
Environment=KEYRACK_DATA_DIR=$state
EnvironmentFile=-/etc/keyrack.env
WorkingDirectory=$state
$state_directory
StateDirectoryMode=0700
UMask=0077
Restart=on-failure
# 2 is bad settings: starting again would not mend them. 70 is the storage fail-stop: a person must look first.
RestartPreventExitStatus=2 70
RestartSec=2
TimeoutStopSec=20
MemoryMax=2G
TasksMax=256
LimitNOFILE=65536

NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=$state
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
CapabilityBoundingSet=
AmbientCapabilities=
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources

[Install]
WantedBy=multi-user.target
UNIT
  mv -f "$unit.new" "$unit"
  echo "wrote $unit"
  quiet_systemctl daemon-reload
  if [ "$start" = yes ]; then
    systemctl enable --now keyrack.service || fail "the unit was written, but systemctl could not start it."
    echo "started it"
  else
    echo "It is not started. To start it: systemctl enable --now keyrack"
  fi
fi

case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "Note: $prefix/bin is not on your PATH." ;;
esac
echo "Next: keyrack serve"
