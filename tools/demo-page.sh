#!/usr/bin/env bash
# Opens a finished demo page in headless Chromium and checks it:
#
#     tools/demo-page.sh PAGE.html [OUT-DIR]
#
# The page must draw every figure, use its controls without a console message, and be no
# wider than a phone of 360 px. Screenshots go to OUT-DIR, target/demo-page without one.
set -euo pipefail

if [ ! -f "${1:-}" ]; then
    echo "usage: tools/demo-page.sh PAGE.html [OUT-DIR]" >&2
    exit 2
fi
page=$(realpath "$1")
tools=$(realpath "$(dirname "$0")")
out=$(realpath -m "${2:-$tools/../target/demo-page}")
"$tools/packages.sh" chromium
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "demo-page.sh: FAILED, $1" >&2
    failed=1
}

# Chromium's windows are at least 500 px wide, so the page is shown in a frame, which the
# page around it may read. It then uses every control; what it saw goes into its <pre>.
cat >"$work/frame.html" <<EOF
<!doctype html><style>body { margin: 0; background: #888 } iframe { border: 0; display: block } pre { display: none }</style>
<iframe src="file://${page// /%20}"></iframe><pre></pre>
<script>
const frame = document.querySelector("iframe"), [width, use] = location.hash.slice(1).split(",");
frame.width = width;
frame.height = 900;
frame.onload = () => {
  const root = frame.contentDocument.documentElement, lines = [];
  const all = selector => [...root.querySelectorAll(selector)];
  if (use) {
    for (const button of all("button")) { button.click(); button.click(); }
    for (const input of all("input")) {
      for (const end of [input.min, input.max]) { input.value = end; input.oninput(); }
    }
    for (const canvas of all("canvas.top")) {
      canvas.onkeydown(new KeyboardEvent("keydown", { key: "ArrowRight" }));
      canvas.onpointerdown({ offsetX: 150, offsetY: 150 });
    }
  }
  lines.push("ready " + root.dataset.ready, "overflow " + (root.scrollWidth - frame.clientWidth));
  for (const figure of all("figure")) lines.push("figure " + figure.id + " " + figure.dataset.drawn);
  frame.height = root.scrollHeight;
  lines.push("height " + root.scrollHeight);
  document.querySelector("pre").textContent = lines.join("\n");
};
</script>
EOF

# browse HASH ARGUMENT…: the page's console goes to console.txt.
browse() {
    local hash=$1
    shift
    rm -rf "$work/profile"
    timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-background-networking \
        --user-data-dir="$work/profile" --allow-file-access-from-files --hide-scrollbars \
        --enable-logging=stderr --v=0 "$@" "file://$work/frame.html#$hash" 2>"$work/stderr.txt"
    grep ':CONSOLE[:(]' "$work/stderr.txt" >"$work/console.txt" || true
}

# inspect WIDTH [use]: fails on what is wrong and leaves the page's height in `height`.
inspect() {
    local what="$1 px wide${2:+, controls in use}" word name value figures=0
    height=0
    browse "$1${2:+,$2}" --dump-dom >"$work/dom.html" ||
        { fail "$what: Chromium ended badly: $(tail -n 1 "$work/stderr.txt")"; return; }
    if [ -s "$work/console.txt" ]; then
        fail "$what: console messages"
        cat "$work/console.txt" >&2
    fi
    sed -n '/<pre>/,/<\/pre>/{s/.*<pre>//; s/<\/pre>.*//; p}' "$work/dom.html" >"$work/report.txt"
    grep -qx 'ready true' "$work/report.txt" || fail "$what: the page does not say that it is ready"
    while read -r word name value; do
        case $word in
        overflow) [ "$name" -le 0 ] || fail "$what: $name px wider than the screen" ;;
        figure)
            figures=$((figures + 1))
            [[ $value =~ ^[1-9][0-9]*$ ]] || fail "$what: figure $name drew nothing ($value)"
            ;;
        height) height=$name ;;
        esac
    done <"$work/report.txt"
    [ "$figures" -gt 0 ] || fail "$what: no figures"
    echo "$what: $figures figures, $height px high"
}

# shoot NAME WIDTH ARGUMENT…
shoot() {
    local name=$1 width=$2
    shift 2
    rm -f "$out/$name.png"
    browse "$width" "$@" --window-size="$((width < 500 ? 500 : width)),$height" \
        --screenshot="$out/$name.png" >/dev/null || true
    if [ -s "$out/$name.png" ]; then echo "$out/$name.png"; else fail "no screenshot $name"; fi
}

inspect 360 use
inspect 360
shoot phone 360
# The least width at which tables are not yet stacked.
inspect 833
inspect 1280
shoot desktop-light 1280
shoot desktop-dark 1280 --blink-settings=preferredColorScheme=0
exit $failed
