# Sets `data` to the folder of measured corpora: the first argument of the script that sources this,
# or ../shared/data. Ends the script if the folder does not exist.
data=${1:-../shared/data}
if [ ! -d "$data" ]; then
    script=${0##*/}
    echo "$script: no corpora in $data; name their folder: tools/$script FOLDER" >&2
    exit 1
fi
