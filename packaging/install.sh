#!/bin/sh
# Installs Piton into ~/.local: the binary, its manual pages and shell completions. Nothing is installed unless the
# archive has the checksum that SHA256SUMS gives it.
#
#   PITON_INSTALL_URL   the folder of a release: https://…, or file:///…
#   PITON_INSTALL_DIR   where the binary goes (default: ~/.local/bin)
set -eu

# The address of the release that this script belongs to. `cargo xtask dist --url` fills it in.
release=

fail() {
    echo "piton install: $1" >&2
    exit 1
}

target() {
    case $(uname -s) in
        Linux) ;;
        Darwin) system=apple-darwin ;;
        *) fail "there is no binary for $(uname -s); build it with Rust" ;;
    esac
    if [ "$(uname -s)" = Linux ]; then
        # musl's loader says its name; glibc's ldd says another.
        case $(ldd --version 2>&1 || :) in
            *musl*) system=unknown-linux-musl ;;
            *) system=unknown-linux-gnu ;;
        esac
    fi
    case $(uname -m) in
        x86_64 | amd64) echo "x86_64-$system" ;;
        aarch64 | arm64) echo "aarch64-$system" ;;
        *) fail "there is no binary for $(uname -m); build it with Rust" ;;
    esac
}

# download ADDRESS FILE
download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --proto-redir '=https' --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$2" "$1"
    else
        fail "curl or wget is needed"
    fi || fail "cannot download $1. Nothing was installed."
}

sha256() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1"
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1"
    else
        fail "sha256sum or shasum is needed to check what was downloaded"
    fi | cut -d ' ' -f 1
}

# Stops unless the file has the checksum of its name in SHA256SUMS.
verify() {
    wanted=$(sed -n "s/^\([0-9a-f]\{64\}\) [ *]$1\$/\1/p" SHA256SUMS)
    [ -n "$wanted" ] || fail "SHA256SUMS has no checksum of $1. Nothing was installed."
    found=$(sha256 "$1")
    [ "$found" = "$wanted" ] ||
        fail "$1 is not what was released: its checksum is $found, not $wanted. Nothing was installed."
}

install_files() {
    bin=${PITON_INSTALL_DIR:-$HOME/.local/bin}
    share=${XDG_DATA_HOME:-$HOME/.local/share}
    mkdir -p "$bin" "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
        "$share/fish/vendor_completions.d"
    # Renamed into its place: a Piton that runs keeps its own file.
    cp "$1/piton" "$bin/.piton.new"
    chmod 755 "$bin/.piton.new"
    "$bin/.piton.new" --version >/dev/null || {
        rm -f "$bin/.piton.new"
        fail "the binary does not run on this machine. Nothing was installed."
    }
    mv -f "$bin/.piton.new" "$bin/piton"
    cp "$1"/man/*.1 "$share/man/man1/"
    cp "$1/completions/piton.bash" "$share/bash-completion/completions/piton"
    cp "$1/completions/_piton" "$share/zsh/site-functions/_piton"
    cp "$1/completions/piton.fish" "$share/fish/vendor_completions.d/piton.fish"
    echo "$("$bin/piton" --version) is in $bin"
    case ":$PATH:" in
        *":$bin:"*) echo "Try it: piton demo" ;;
        *) echo "$bin is not in your PATH. Add it, or try it so: $bin/piton demo" ;;
    esac
}

# Called at the end of the script, so that half a script does nothing.
main() {
    url=${PITON_INSTALL_URL:-$release}
    [ -n "$url" ] || fail "this script is not part of a release: name one with PITON_INSTALL_URL"
    name=piton-$(target)
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    cd "$dir"
    download "$url/SHA256SUMS" SHA256SUMS
    download "$url/$name.tar.gz" "$name.tar.gz"
    verify "$name.tar.gz"
    tar -xzf "$name.tar.gz"
    install_files "$dir/$name"
}

main
