#!/bin/sh
# Installs Keyrack from a release, or builds it from this checkout. Safe to run again: it replaces what it installed.
set -eu
# With it, cd may choose another folder, and prints which one.
unset CDPATH

usage() {
  cat <<'USAGE'
usage: ./install.sh [--from SOURCE [--version X.Y.Z] [--require-signature | --unsigned]] [--prefix DIR] [--systemd [--start]]
       ./install.sh --rollback [--force] [--prefix DIR]
       ./install.sh --uninstall [--prefix DIR]

  --from SOURCE        install a release: a folder, a release tarball or an https:// URL that holds its files
                       (default: build from this checkout)
  --version X.Y.Z      the release must be this version
  --require-signature  fail if the signature cannot be checked
  --unsigned           accept a release that has no signature
  --prefix DIR         install the binary in DIR/bin (default: /usr/local for root, ~/.local for others)
  --systemd            also write a hardened unit, keyrack.service, without starting it
  --start              with --systemd: enable and start the unit
  --rollback           swap the binary with the one before it, keyrack.previous
  --force              with --rollback: even if the older binary cannot open the present data
  --uninstall          remove the binaries and the unit; keep all data

Environment: KEYRACK_UNIT_DIR sets the folder of the unit, KEYRACK_STATE_DIR the data dir
(default: that of the installed unit, or /var/lib/keyrack).
Exit codes: 1 failed, 2 wrong usage, 4 the release lacks a file or is not what was signed.
USAGE
}

# Keys that may sign a release. In a released install.sh this line is replaced by the keys themselves.
release_keys() { cat "$root/release-keys"; }

fail() {
  echo "install.sh: $1" >&2
  exit "${2:-1}"
}

from=
version=
require_signature=no
unsigned=no
prefix=
systemd=no
start=no
rollback=no
force=no
uninstall=no
while [ $# -gt 0 ]; do
  case $1 in --*=*) arg=$1; shift; set -- "${arg%%=*}" "${arg#*=}" "$@" ;; esac
  case $1 in --from | --version | --prefix) [ -n "${2:-}" ] || fail "$1 requires a value" 2 ;; esac
  case $1 in
    --from) from=$2; shift ;;
    --version) version=$2; shift ;;
    --require-signature) require_signature=yes ;;
    --unsigned) unsigned=yes ;;
    --prefix) prefix=$2; shift ;;
    --systemd) systemd=yes ;;
    --start) start=yes ;;
    --rollback) rollback=yes ;;
    --force) force=yes ;;
    --uninstall) uninstall=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; fail "unknown argument $1" 2 ;;
  esac
  shift
done

root=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" = 0 ]; then
  prefix=${prefix:-/usr/local}
  # Other users run what root installs.
  umask 022
else
  [ -n "$prefix${HOME:-}" ] || fail "HOME is not set. Choose a folder with --prefix." 2
  prefix=${prefix:-$HOME/.local}
fi
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
binary=$prefix/bin/keyrack
unit_dir=${KEYRACK_UNIT_DIR:-/etc/systemd/system}
unit=$unit_dir/keyrack.service
template=$root/deploy/keyrack.service.in
# A unit that runs another binary is not ours: a server of another prefix keeps running, with its own data.
is_own_unit() { [ -f "$unit" ] && grep -qxF "ExecStart=$binary serve" "$unit"; }
state=${KEYRACK_STATE_DIR:-}
if [ -z "$state" ] && is_own_unit; then state=$(sed -n 's/^Environment=KEYRACK_DATA_DIR=//p' "$unit" | tail -n 1); fi
state=${state:-/var/lib/keyrack}

[ "$start" = no ] || [ "$systemd" = yes ] || fail "--start requires --systemd" 2
[ "$force" = no ] || [ "$rollback" = yes ] || fail "--force requires --rollback" 2
[ "$require_signature$unsigned" != yesyes ] || fail "--require-signature and --unsigned exclude each other" 2
if [ -z "$from" ]; then
  [ "$version$require_signature$unsigned" = nono ] || fail "--version, --require-signature and --unsigned require --from" 2
else
  [ "$rollback$uninstall" = nono ] || fail "--from excludes --rollback and --uninstall" 2
fi
case $version in *[!0-9A-Za-z.+-]*) fail "--version must be a version such as 1.2.3" 2 ;; esac

quiet_systemctl() {
  if command -v systemctl >/dev/null 2>&1; then systemctl "$@" >/dev/null 2>&1 || true; fi
}

remove() {
  rm -f "$1" || fail "cannot remove $1; run this as the user that installed it"
  echo "Removed $1"
}

if [ "$uninstall" = yes ]; then
  if is_own_unit; then
    quiet_systemctl disable --now keyrack.service
    remove "$unit"
    quiet_systemctl daemon-reload
  elif [ -f "$unit" ]; then
    echo "Kept $unit: it runs another binary"
  fi
  if [ -f "$binary" ]; then remove "$binary"; fi
  if [ -f "$binary.previous" ]; then remove "$binary.previous"; fi
  echo "Data was not touched: $state and every other data dir are unchanged."
  exit 0
fi

# Everything is prepared in one folder, which is removed however this script ends. It is beside the binary, because a
# rename is atomic only within a file system, and because /tmp may forbid running programs.
work=
new_unit=
made_user=no
upgraded=no
installed_before=no
made_state=no
placed_unit=no
placed_binary=no
trap 'undo_service; rm -rf ${work:+"$work"} ${new_unit:+"$new_unit"}' EXIT
# The binary is placed last: until then the unit, the data dir and the user that were made for it are taken back. Each of
# them is marked before it is made, because a signal may end this script right after.
undo_service() {
  [ "$placed_binary" = no ] || return 0
  if [ "$placed_unit" = yes ]; then
    if [ -e "$work/unit" ]; then cp -p "$work/unit" "$new_unit" && mv -f "$new_unit" "$unit"; else rm -f "$unit"; fi
  fi
  if [ "$made_state" = yes ]; then rmdir "$state" 2>/dev/null || true; fi
  if [ "$made_user" = yes ]; then userdel keyrack 2>/dev/null || true; fi
}
end_by_signal() {
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}
end_by_signal
open_work() {
  dir=$prefix/bin
  while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
  work=$(mktemp -d "$dir/.keyrack-install.XXXXXX" 2>/dev/null) || fail "$dir is not writable. Choose another folder with --prefix."
}

# replace NEW: puts a binary in place and keeps the old one as keyrack.previous. The path names a complete binary at every
# moment, and a running server keeps its file. No signal ends it half-way: between the two renames the work folder, which
# is removed then, has the only copy of the old binary.
replace() {
  trap '' HUP INT TERM
  mkdir -p "$prefix/bin" 2>/dev/null || fail "cannot create $prefix/bin. Choose another folder with --prefix."
  if [ ! -e "$binary" ]; then
    mv -f "$1" "$binary" || fail "cannot write $binary."
  elif ! cmp -s "$1" "$binary"; then
    ln "$binary" "$work/old" 2>/dev/null || cp -p "$binary" "$work/old" || fail "cannot keep the old binary."
    mv -f "$1" "$binary" || fail "cannot write $binary."
    if ! mv -f "$work/old" "$binary.previous"; then
      mv -f "$binary" "$1"
      mv -f "$work/old" "$binary"
      fail "cannot write $binary.previous."
    fi
    upgraded=yes
  fi
  placed_binary=yes
  end_by_signal
}

# number NAME: the number of that name in JSON on standard input.
number() { sed -n "s/.*$1:\([0-9][0-9]*\).*/\1/p"; }

# value NAME FILE: what that environment file, or the unit, sets it to. The last line wins.
value() { sed -n "s/^[[:space:]]*\(Environment=\)\{0,1\}$1=[\"']\{0,1\}\([^\"']*\).*/\2/p" "$2" | tail -n 1; }

# The database and the data dir of the service, if the unit runs this binary. The last of its files wins.
read_unit() {
  is_own_unit || return 0
  url=
  for file in "$unit" $(sed -n 's/^EnvironmentFile=-\{0,1\}//p' "$unit"); do
    [ -e "$file" ] || continue
    [ -r "$file" ] || fail "cannot read $file, which may name the database: run this as root. --force goes back without."
    found=$(value KEYRACK_DATABASE_URL "$file")
    url=${found:-$url}
    found=$(value KEYRACK_DATA_DIR "$file")
    data=${found:-$data}
  done
  if [ -n "$url" ]; then export KEYRACK_DATABASE_URL="$url"; fi
}

# A schema only goes up: a binary refuses data that a newer one has migrated.
check_schema() {
  data=$state
  [ -n "${KEYRACK_DATABASE_URL:-}" ] || read_unit
  data=${KEYRACK_DATA_DIR:-$data}
  [ -d "$data" ] || data=keyrack-data
  if [ -z "${KEYRACK_DATABASE_URL:-}" ] && [ ! -e "$data/keyrack.db" ]; then
    echo "The schemas were not compared: $data has no database, and KEYRACK_DATABASE_URL is not set." >&2
    return
  fi
  reads=$("$binary.previous" version --json | number '"schema"')
  # The cache is in the data dir by default; as root it would get files there that the server cannot replace.
  has=$(KEYRACK_CACHE_DIR=$work "$binary" db check --json --data-dir "$data" 2>/dev/null | number '"schema":{"database"')
  [ -n "$reads" ] || has=
  if [ -n "${KEYRACK_DATABASE_URL:-}" ]; then data="the database"; fi
  [ -n "$has" ] || fail "cannot compare the schema of keyrack $version with that of $data. --force goes back without."
  [ "$reads" -ge "$has" ] || fail "keyrack $version reads schema $reads, but $data has schema $has. Restore the backup from before the upgrade with it (keyrack restore); --force swaps the binaries anyway."
}

if [ "$rollback" = yes ]; then
  [ -x "$binary.previous" ] || fail "there is no $binary.previous to go back to."
  version=$("$binary.previous" version) || fail "$binary.previous does not run on this machine; nothing was changed."
  open_work
  [ "$force" = yes ] || check_schema
  replace "$binary.previous"
  echo "Rolled back to keyrack $version as $binary. Restart the server to use it."
  exit 0
fi

[ "$(uname -s)" = Linux ] || fail "Keyrack runs on Linux only; this is $(uname -s)."
case $(uname -m) in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) fail "unsupported architecture $(uname -m): Keyrack runs on x86_64 and aarch64." ;;
esac
if ldd --version 2>&1 | grep -qi musl; then fail "Keyrack requires glibc; this system has musl."; fi
# Older ones run the binary, but do not load the addons inside it: it would serve nothing.
glibc_min=2.34
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc \([0-9]*\.[0-9]*\).*/\1/p')
if [ "${glibc%%.*}" = "${glibc_min%%.*}" ] && [ "${glibc#*.}" -lt "${glibc_min#*.}" ]; then
  fail "Keyrack requires glibc $glibc_min or newer (Debian 12, Ubuntu 22.04, RHEL 9); this system has $glibc."
fi
command -v tar >/dev/null 2>&1 || fail "tar is not installed. Install it, then run this again."
if [ "$systemd" = yes ]; then
  [ "$(id -u)" = 0 ] || fail "--systemd writes to $unit_dir: run it as root."
  [ -n "$from" ] || [ -f "$template" ] || fail "$template is missing."
  [ -d "$unit_dir" ] || fail "$unit_dir does not exist: this machine does not seem to use systemd."
  # systemd interprets spaces, quotes and percent signs in a unit.
  case $binary$state in *[!A-Za-z0-9/._+-]*) fail "with --systemd, $binary and $state may contain only letters, digits and / . _ + -" 2 ;; esac
  case $prefix/ in /home/* | /root/* | /run/user/*) fail "with --systemd, the binary cannot be in $prefix, which the unit hides (ProtectHome). Choose another folder with --prefix." 2 ;; esac
  case $state in /*/*) ;; *) fail "KEYRACK_STATE_DIR must be an absolute path such as /var/lib/keyrack" 2 ;; esac
fi

build() {
  [ -f "$root/package-lock.json" ] || fail "$root is no checkout to build from. To install a release, add --from." 2
  command -v npm >/dev/null 2>&1 || fail "npm is not installed. Install Node 20 or newer (for example: apt-get install nodejs npm), then run this again."
  cd "$root"
  # npm ci empties node_modules first, even through a link: it would delete the contents of another folder.
  [ ! -L node_modules ] || [ -x node_modules/.bin/node ] || fail "node_modules is a link to another folder. Remove the link, then run this again."
  if [ ! -L node_modules ] && { [ ! -x node_modules/.bin/node ] || [ package-lock.json -nt node_modules/.package-lock.json ]; }; then
    echo "Installing build dependencies (npm ci) …"
    npm ci --no-audit --no-fund >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "npm ci failed; see its last lines above."; }
  fi
  echo "Building the binary …"
  npm run -s build >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; fail "the build failed; see its last lines above."; }
  cp dist/keyrack "$work/keyrack" || fail "cannot write $binary. Choose another folder with --prefix."
}

# download NAME. Fails if the server has no such file; any other failure ends this script, because it says nothing about
# the release. curl itself refuses to leave https. wget cannot, so its redirects are followed here.
download() {
  if command -v curl >/dev/null 2>&1; then
    if status=$(curl -fsSL --proto '=https' --proto-redir '=https' --connect-timeout 20 --speed-limit 1000 --speed-time 60 \
      -w '%{http_code}' -o "$work/$1" "$from/$1" 2>"$work/log"); then return; fi
  else
    command -v wget >/dev/null 2>&1 || fail "neither curl nor wget is installed. Install one, then run this again."
    url=$from/$1
    for _ in 1 2 3 4 5; do
      if wget -S --max-redirect=0 --tries=2 --timeout=60 -O "$work/$1" "$url" >"$work/log" 2>&1; then return; fi
      url=$(sed -n 's/^ *[Ll]ocation: \(https:[^ ]*\).*/\1/p' "$work/log" | tail -n 1)
      [ -n "$url" ] || break
    done
    status=$(sed -n 's/^ *HTTP\/[0-9.]* \([0-9]*\).*/\1/p' "$work/log" | tail -n 1)
  fi
  case $status in 404 | 410) return 1 ;; esac
  sed -n '/^curl:/p; /ERROR/p; /failed:/p; /closed at/p; /timed out/p; /exceeded/p' "$work/log" | tail -n 1 >&2
  fail "cannot download $1 from $from. Nothing was changed."
}

# get NAME: copies a file of the release into the work folder; what is checked there cannot change before it is used.
get() {
  case $from in
    https://*) download "$1" ;;
    *)
      [ -f "$from/$1" ] || return 1
      cp "$from/$1" "$work/$1" || fail "cannot copy $1 from $from to $prefix. Nothing was changed."
      ;;
  esac
}

# need NAME: the same for a file that must be there.
need() {
  get "$1" || fail "$1: missing from $from. Nothing was changed." 4
}

check_signature() {
  release_keys >"$work/keys" || fail "cannot write to $prefix. Nothing was changed."
  if ! get SHA256SUMS.sig; then
    # Where there are keys, releases are signed: a missing signature may have been removed.
    if [ "$require_signature" = yes ] || { [ "$unsigned" = no ] && grep -q '^[^#]' "$work/keys"; }; then
      fail "SHA256SUMS.sig: missing from $from. Nothing was changed; --unsigned accepts a release without a signature." 4
    fi
    echo "The release is not signed: only its checksum is checked." >&2
  # ssh-keygen of OpenSSH before 8.1 has no -Y.
  elif ! ssh-keygen -Y 2>&1 | grep -q 'requires an argument'; then
    [ "$require_signature" = no ] || fail "ssh-keygen is not installed, so the signature cannot be checked (apt-get install openssh-client). Nothing was changed." 4
    echo "ssh-keygen is not installed: the signature is not checked, only the checksum." >&2
  elif ! ssh-keygen -Y verify -f "$work/keys" -I release@keyrack -n keyrack-release -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >"$work/log" 2>&1; then
    fail "SHA256SUMS.sig: not a signature of SHA256SUMS by a release key. Nothing was changed." 4
  else
    echo "The signature is good."
  fi
}

unpack_release() {
  tarball=
  case $from in *.tar.gz) tarball=${from##*/} ;; esac
  case $from in
    https://*) from=${from%"$tarball"}; from=${from%/} ;;
    *://*) fail "--from accepts https://, a folder or a release tarball." 2 ;;
    *)
      [ -e "$from" ] || fail "$from does not exist." 2
      [ -z "$tarball" ] || from=$(dirname "$from")
      from=$(cd "$from" 2>/dev/null && pwd) || fail "--from accepts https://, a folder or a release tarball." 2
      ;;
  esac
  need SHA256SUMS
  check_signature
  pattern="^\([0-9a-f]\{64\}\)  \(keyrack-${version:-[0-9][0-9A-Za-z.+-]*}-linux-$arch\.tar\.gz\)\$"
  name=$(sed -n "s/$pattern/\2/p" "$work/SHA256SUMS")
  sum=$(sed -n "s/$pattern/\1/p" "$work/SHA256SUMS")
  case $name in
    "") fail "SHA256SUMS lists no keyrack${version:+ $version} for linux-$arch. Nothing was changed." 4 ;;
    *[!0-9A-Za-z.+-]*) fail "SHA256SUMS lists more than one release for linux-$arch. Choose one with --version." 4 ;;
  esac
  [ -z "$tarball" ] || [ "$tarball" = "$name" ] || fail "$tarball is not the release for this machine, which is $name." 2
  need "$name"
  got=$(sha256sum <"$work/$name")
  [ "${got%% *}" = "$sum" ] || fail "$name: its hash differs from SHA256SUMS. Nothing was changed." 4
  folder=${name%.tar.gz}
  # Only what is needed, and as this user.
  members=$folder/keyrack
  if [ "$systemd" = yes ]; then members="$members $folder/keyrack.service"; fi
  # shellcheck disable=SC2086 # two names
  (cd "$work" && gzip -dc "$name" | tar -xof - $members) || fail "cannot unpack $name. Nothing was changed."
  template=$work/$folder/keyrack.service
  mv "$work/$folder/keyrack" "$work/keyrack"
  version=${folder#keyrack-}
  version=${version%-linux-*}
}

# The unit, the user it runs as, and its data dir.
place_unit() {
  if [ -n "${KEYRACK_UNIT_DIR:-}" ]; then
    echo "KEYRACK_UNIT_DIR is set: the system user keyrack was not created"
  elif ! id keyrack >/dev/null 2>&1; then
    made_user=yes
    useradd --system --home-dir "$state" --shell /usr/sbin/nologin keyrack || fail "cannot create the user keyrack."
    echo "Created the system user keyrack"
  fi
  if id keyrack >/dev/null 2>&1 && command -v runuser >/dev/null 2>&1; then
    runuser -u keyrack -- test -x "$dir" || fail "the user keyrack cannot enter $dir. Make it and its parents accessible (chmod a+x), or choose another folder with --prefix."
  fi
  # systemd creates a state directory itself, but only in /var/lib.
  case $state in
    /var/lib/*) state_directory="StateDirectory=${state#/var/lib/}" ;;
    *)
      state_directory="# $state was created by install.sh"
      if [ -z "${KEYRACK_UNIT_DIR:-}" ] && [ ! -d "$state" ]; then
        made_state=yes
        install -d -m 0700 -o keyrack -g keyrack "$state" || fail "cannot create $state."
      fi
      ;;
  esac
  new_unit=$unit.new
  # By line, not by placeholder: the unit of a release tarball is filled in already, for the default prefix.
  sed -e "s|^ExecStart=.*|ExecStart=$binary serve|" -e "s|/var/lib/keyrack|$state|g" \
    -e "s|^StateDirectory=.*|$state_directory|" "$template" >"$new_unit" || fail "cannot write $new_unit."
  chmod 644 "$new_unit"
  if [ -e "$unit" ]; then cp -p "$unit" "$work/unit" || fail "cannot keep the old unit."; fi
  placed_unit=yes
  mv -f "$new_unit" "$unit" || fail "cannot write $unit."
}

open_work
if [ -n "$from" ]; then unpack_release; else build; fi
chmod 755 "$work/keyrack"
reported=$("$work/keyrack" version) || fail "the new binary does not run on this machine; the installed one is untouched."
[ -z "$from" ] || [ "$reported" = "$version" ] || fail "the binary in $name is version $reported; the installed one is untouched." 4
if [ "$systemd" = yes ]; then place_unit; fi
if [ -e "$binary" ]; then installed_before=yes; fi
replace "$work/keyrack"
echo "Installed keyrack $reported as $binary"

if [ "$systemd" = yes ]; then
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
if [ "$upgraded" = yes ]; then
  how=
  if is_own_unit; then how=" (systemctl restart keyrack)"; fi
  echo "Restart the server to use it$how."
elif [ "$systemd$installed_before" = nono ]; then
  echo "Next: keyrack serve"
fi
