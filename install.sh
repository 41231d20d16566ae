#!/bin/sh
# Builds Keyrack from this checkout and installs the binary. Safe to run again: it replaces what it installed.
set -eu

usage() {
  cat <<'USAGE'
usage: ./install.sh [--prefix DIR] [--systemd] [--start] [--uninstall]

  --prefix DIR   install the binary in DIR/bin (default: /usr/local for root, ~/.local for others)
  --systemd      also write a hardened unit, keyrack.service, without starting it
  --start        with --systemd: enable and start the unit
  --uninstall    remove the binary and the unit; keep all data

Environment: KEYRACK_UNIT_DIR sets the folder of the unit, KEYRACK_STATE_DIR the data dir (/var/lib/keyrack).
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
    --prefix) [ $# -ge 2 ] || fail "--prefix requires a folder" 2; prefix=$2; shift ;;
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
template=$root/deploy/keyrack.service.in

[ "$start" = no ] || [ "$systemd" = yes ] || fail "--start requires --systemd" 2

quiet_systemctl() {
  if command -v systemctl >/dev/null 2>&1; then systemctl "$@" >/dev/null 2>&1 || true; fi
}

remove() {
  rm -f "$1" || fail "cannot remove $1; run this as the user that installed it"
  echo "Removed $1"
}

if [ "$uninstall" = yes ]; then
  # Only the unit that runs this binary: a server of another prefix keeps running.
  if [ -f "$unit" ] && grep -qxF "ExecStart=$binary serve" "$unit"; then
    quiet_systemctl disable --now keyrack.service
    remove "$unit"
    quiet_systemctl daemon-reload
  elif [ -f "$unit" ]; then
    echo "Kept $unit: it runs another binary"
  fi
  if [ -f "$binary" ]; then remove "$binary"; fi
  echo "Data was not touched: $state and every other data dir are unchanged."
  exit 0
fi

[ "$(uname -s)" = Linux ] || fail "the binary can be built on Linux only; this is $(uname -s)."
case $(uname -m) in
  x86_64 | aarch64) ;;
  *) fail "unsupported architecture $(uname -m): Keyrack runs on x86_64 and aarch64." ;;
esac
if ldd --version 2>&1 | grep -qi musl; then fail "Keyrack requires glibc; this system has musl."; fi
command -v npm >/dev/null 2>&1 || fail "npm is not installed. Install Node 20 or newer (for example: apt-get install nodejs npm), then run this again."
command -v tar >/dev/null 2>&1 || fail "tar is not installed. Install it, then run this again."
if [ "$systemd" = yes ]; then
  [ "$(id -u)" = 0 ] || fail "--systemd writes to $unit_dir: run it as root."
  [ -f "$template" ] || fail "$template is missing."
  [ -d "$unit_dir" ] || fail "$unit_dir does not exist: this machine does not seem to use systemd."
  # systemd interprets spaces, quotes and percent signs in a unit.
  case $binary$state in *[!A-Za-z0-9/._+-]*) fail "with --systemd, $binary and $state may contain only letters, digits and / . _ + -" 2 ;; esac
  case $state in /*/*) ;; *) fail "KEYRACK_STATE_DIR must be an absolute path such as /var/lib/keyrack" 2 ;; esac
fi

mkdir -p "$prefix/bin" 2>/dev/null || fail "cannot create $prefix/bin. Choose another folder with --prefix."
[ -w "$prefix/bin" ] || fail "$prefix/bin is not writable. Choose another folder with --prefix."

cd "$root"
# npm ci empties node_modules first, even through a link: it would delete the contents of another folder.
[ ! -L node_modules ] || [ -x node_modules/.bin/node ] || fail "node_modules is a link to another folder. Remove the link, then run this again."
log=$(mktemp)
trap 'rm -f "$log" "$binary.new"' EXIT
if [ ! -L node_modules ] && { [ ! -x node_modules/.bin/node ] || [ package-lock.json -nt node_modules/.package-lock.json ]; }; then
  echo "Installing build dependencies (npm ci) …"
  npm ci --no-audit --no-fund >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "npm ci failed; see its last lines above."; }
fi
echo "Building the binary …"
npm run -s build >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "the build failed; see its last lines above."; }

# Copy next to the old binary, try it there, then rename over it: a running server keeps its file, and the path never
# names an incomplete or broken binary.
cp dist/keyrack "$binary.new" || fail "cannot write $binary. Choose another folder with --prefix."
chmod 755 "$binary.new"
version=$("$binary.new" version) || fail "the new binary does not run on this machine; the installed one is untouched."
mv -f "$binary.new" "$binary"
echo "Installed keyrack $version as $binary"

if [ "$systemd" = yes ]; then
  if [ -n "${KEYRACK_UNIT_DIR:-}" ]; then
    echo "KEYRACK_UNIT_DIR is set: the system user keyrack was not created"
  elif ! id keyrack >/dev/null 2>&1; then
    useradd --system --home-dir "$state" --shell /usr/sbin/nologin keyrack || fail "cannot create the user keyrack."
    echo "Created the system user keyrack"
  fi
  # systemd creates a state directory itself, but only in /var/lib.
  case $state in
    /var/lib/*) state_directory="StateDirectory=${state#/var/lib/}" ;;
    *)
      state_directory="# $state was created by install.sh"
      if [ -z "${KEYRACK_UNIT_DIR:-}" ]; then
        [ -d "$state" ] || install -d -m 0700 -o keyrack -g keyrack "$state" || fail "cannot create $state."
      fi
      ;;
  esac
  umask 022
  # By line, not by placeholder: the unit of a release tarball is filled in already, for the default prefix.
  sed -e "s|^ExecStart=.*|ExecStart=$binary serve|" -e "s|/var/lib/keyrack|$state|g" \
    -e "s|^StateDirectory=.*|$state_directory|" "$template" >"$unit.new"
  mv -f "$unit.new" "$unit"
  echo "Wrote $unit"
  quiet_systemctl daemon-reload
  if [ "$start" = yes ]; then
    systemctl enable --now keyrack.service || fail "the unit was written, but systemctl could not start it."
    echo "Started keyrack.service"
  else
    echo "To start it: systemctl enable --now keyrack"
  fi
fi

case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "Note: $prefix/bin is not on your PATH." ;;
esac
echo "Next: keyrack serve"
