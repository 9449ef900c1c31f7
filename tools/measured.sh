#!/usr/bin/env bash
# Makes the corpora that this project calls measured from what other people published: fetches each source by its
# commit from GitHub and converts it to the CSV form of ../shared/data.
#
#     tools/measured.sh OUTPUT-FOLDER [FOLDER-OF-COPIES]
#
# It fetches roughly 150 MB, most of them from LoudVA, and keeps only the corpora, 2 MB.
# FOLDER-OF-COPIES/OWNER+NAME/repo are git directories (bare clones), read in place of GitHub. Each file gets one
# line of output: its rows and, where ../shared/data has a file of its name, whether both are equal to the last
# byte or how far they differ at most. The files appear in OUTPUT-FOLDER when all are made, or not at all.
# Exits with 3 if one of them differs.
#
# Sources and their licences:
#   iqbal128855/Translucence     MIT, (c) 2021 Md Shahriar Iqbal
#   softsys4ai/FlexiBO           MIT, (c) 2019 Pooyan Jamshidi, Shahriar Iqbal
#   iloudaros/LoudVA             MIT, (c) 2024 Ioannis Loudaros
#   Zanatticus/EnergyLLM         MIT, (c) 2025 Alexander Ingare
#   hongpeng-guo/BoFL            NO LICENCE FILE: read only. Nothing made of it may be shipped.
#   lijiaxi2018/Distributed-Learning    NO LICENCE FILE: read only. Nothing made of it may be shipped.
#
# Left out: the power over time of ../shared/data/traces (jbecirovski/jetson-llm-maxperf, sco-edge/E2FL,
# SamJSui/jetsonfabric).
set -euo pipefail
tools=$(dirname "$0")

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ -z "$1" ]; then
    echo "usage: tools/measured.sh OUTPUT-FOLDER [FOLDER-OF-COPIES]" >&2
    exit 2
fi
output=$1
copies=${2-}

fail() {
    echo "measured.sh: $1" >&2
    exit 1
}

[ -z "$copies" ] || [ -d "$copies" ] || fail "there is no folder of copies $copies"
"$tools/packages.sh" ca-certificates git python3
mkdir -p "$output"
# In the output folder, so that the finished files need only a new name.
place=$(mktemp -d "$output/.measured.XXXXXX")
trap 'rm -rf "$place"' EXIT

# take OWNER/NAME COMMIT PATH…: the files of that commit, in the folder sources/OWNER+NAME.
take() {
    local source=$1 commit=$2 folder=${1/\//+} git path
    shift 2
    if [ -n "$copies" ]; then
        git=$copies/$folder/repo
        [ -d "$git" ] || fail "there is no copy of $source: expected the git directory $git"
        git --git-dir="$git" cat-file -e "$commit^{commit}" ||
            fail "the copy $git lacks commit $commit of $source; fetch it, or name no folder of copies"
    else
        git=$place/$folder.git
        echo "fetching $source at $commit"
        git init -q --bare "$git"
        # A repository that is gone is an error, not a question for a password.
        GIT_TERMINAL_PROMPT=0 git --git-dir="$git" fetch -q --depth 1 "https://github.com/$source" "$commit" ||
            fail "cannot fetch commit $commit of https://github.com/$source"
    fi
    folder=$place/sources/$folder
    git --git-dir="$git" ls-tree -r --name-only "$commit" -- "$@" | while read -r path; do
        mkdir -p "$folder/$(dirname "$path")"
        git --git-dir="$git" cat-file blob "$commit:$path" >"$folder/$path" ||
            fail "cannot read $path of commit $commit of $source"
    done
}

take hongpeng-guo/BoFL c89944d5e3b920b23e7d0ba89b0e01efe6b6ab5e \
    AGX/{ImageNet,CIFAR10}.json TX2/{ImageNet,CIFAR10}.json
take iqbal128855/Translucence 68074fa6a5abee8d2b9741f1e0db10e2cb5abc90 data/tx{1,2}_5000_image_target.csv
take softsys4ai/FlexiBO c3d4bd2b48e47a4e2b037f702f23ed56a2461213 \
    data/measurements/tx2_sampled_output_inceptionv3_{200x200,400x400,600x600,800x800}.csv \
    data/measurements/tx2_sampled_output_xception_{200x200,600x600,800x800}.csv
take lijiaxi2018/Distributed-Learning 2c63c6f284b9d5db23fc817bd8b4d4104c5b5c35 \
    assets/result/energy/YOLOv8-1800-{480,640}.json
take iloudaros/LoudVA 2b4b15efa5231d445b85d500ea5ef51d381a64c3 \
    measurements/archive/Representative/{agx-xavier-00,xavier-nx-00}/measurements/{performance,power}/freqs
take Zanatticus/EnergyLLM a80fc7c13d339650bf21c5f810aa3817a4b0bc15 \
    Code/grpo/logs/grid_search_results_20251128_075945.csv

mkdir "$place/results"
code=0
python3 "$tools/measured.py" "$place/sources" "$place/results" "$tools/../../shared/data" || code=$?
# Files that differ are kept, to be looked at.
[ $code -eq 0 ] || [ $code -eq 3 ] || fail "cannot convert: a source has another form than expected"
mv -f "$place/results"/*.csv "$output/"
cat <<END
hongpeng-guo/BoFL and lijiaxi2018/Distributed-Learning have no licence file. Their corpora, *__bofl.csv and
*__distributed-learning.csv, are for reading only: nothing made of them may be shipped, no corpus and no model.
END
exit $code
