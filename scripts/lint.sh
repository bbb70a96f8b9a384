#!/usr/bin/env bash
# The rules that a script can check: who may include whom, who is named as including whom, lengths,
# tabs, format, shell syntax. The format is that of clang-format 14, as other versions break lines
# elsewhere: without it (Debian 12 has it) the format is not checked. Subjects of commits, where the
# history is there. --format formats the C files instead (make format).
# Usage: scripts/lint.sh [--format]
set -u
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
offer_help "$@"
shopt -s lastpipe # the last part of a pipe may set variables
cd "$root" || exit 1
failed=0

list() {
  local file
  { git ls-files -co --exclude-standard -- "$@" 2>/dev/null || find_files "$@"; } |
    while read -r file; do
      if [ -f "$file" ]; then echo "$file"; fi
    done
}

# The same where there is no repository: a tarball.
find_files() {
  local pattern
  for pattern; do
    find . -path ./build -prune -o -path ./.venv -prune -o -path ./runs -prune -o \
      -type f -path "./$pattern" -printf '%P\n'
  done
}
mapfile -t c_files < <(list '*.c' '*.cc' '*.h' '*.cu')
mapfile -t shell_files < <(list '*.sh' '*.sbatch' .ci/run)
mapfile -t design_pages < <(list docs/design.md 'docs/design/*.md')

# Prints the name of clang-format 14.
formatter() {
  local name
  for name in clang-format-14 clang-format; do
    "$name" --version 2>/dev/null | grep -q 'version 14\.' && echo "$name" && return
  done
  return 1
}

case "${1:-}" in
  "") ;;
  --format)
    name=$(formatter) || {
      echo "lint.sh: the format is that of clang-format 14, which is not here" >&2
      exit 1
    }
    "$name" -i "${c_files[@]}"
    exit
    ;;
  *)
    echo "usage: scripts/lint.sh [--format]" >&2
    exit 2
    ;;
esac

# report RULE: fails if there is a line on stdin, and shows the lines.
report() {
  local lines
  lines=$(cat)
  [ -z "$lines" ] && return
  echo "$1:"
  sed 's/^/  /' <<<"$lines"
  failed=1
}

# forbid RULE FOLDERS PATTERN: no file in FOLDERS (a regular expression of paths) includes PATTERN.
forbid() {
  printf '%s\n' "${c_files[@]}" | grep -E "^($2)" |
    xargs -r grep -nE "^ *# *include *[<\"]($3)" /dev/null | report "$1"
}

# ---- who may include whom
printf '%s\n' "${c_files[@]}" | grep -vE '^(common/rpc|tests)/' |
  xargs -r grep -nE '^ *# *include *[<"]grpc/' /dev/null | report "only common/rpc includes gRPC"
printf '%s\n' "${c_files[@]}" |
  grep -vE '^(learner/device/cpu/cpu_dnnl(_[a-z]+\.c|_(engine|version)\.h|\.c)|tests/.*)$' |
  xargs -r grep -nE '^ *# *include *([<"](oneapi|dnnl|omp\.h)|.*cpu_dnnl_[ev])' /dev/null |
  report "only learner/device/cpu/cpu_dnnl*.c include oneDNN"
printf '%s\n' "${c_files[@]}" | grep -vE '^(deploy/inspect/export|tests)/' |
  xargs -r grep -nE '^ *# *include *[<"]onnx' /dev/null |
  report "only deploy/inspect/export includes ONNX's schema"
for program in build/actor build/launch; do
  [ -f "$program" ] && readelf -d "$program" | grep -E 'NEEDED.*(dnnl|gomp)'
done | report "actors and the launcher load no kernels"
forbid "common knows nothing of what is above it" common/ '(actor|learner|envs|deploy)/'
forbid "environments know nothing of what is above them" envs/ '(actor|learner|deploy)/'
forbid "environments know messages, not what carries them" envs/ 'common/rpc/'
forbid "actors know nothing of the learner and its kernels" actor/ \
  '(learner|deploy)/|dnnl|oneapi|cuda|cublas|cudnn'
forbid "the learner knows nothing of actors" learner/ '(actor|deploy)/'
forbid "what starts runs knows nothing of what looks at them" deploy/launch/ 'deploy/inspect/'
forbid "what looks at runs starts none" deploy/inspect/ 'deploy/launch/'
forbid "launchers and tools know runs, not their reports" deploy/ 'learner/report/'
forbid "experience and params know devices only" \
  'learner/(experience|params)/' 'learner/(serve|train|learn|network|episodes|run|report)/'
forbid "steps and episodes are counted without the parts of a run" learner/episodes/ \
  'learner/(serve|train|experience|params|learn|network|device|run|report)/'
forbid "serve and train do not include report" 'learner/(serve|train)/' 'learner/report/'
forbid "what wires a run does not include its reports" learner/run/ 'learner/report/'
forbid "experience does not include params" learner/experience/ 'learner/params/'
forbid "params does not include experience" learner/params/ 'learner/experience/'
forbid "serve does not include train" learner/serve/ 'learner/train/'
forbid "train does not include serve" learner/train/ 'learner/serve/'
forbid "algorithms and policies know batches, networks and devices only" learner/learn/ \
  'learner/(serve|train|params|episodes|run|report)/'
forbid "training has a configuration of its own" 'learner/(serve|train|experience|params)/' \
  'learner/run/'
forbid "network and device stand beside the path" \
  'learner/(network|device)/' 'learner/(serve|train|experience|params|learn|episodes|run|report)/'
forbid "rules are arithmetic alone" learner/rules/ \
  '(common/([ac-z]|base/([a-rt-z]|s[a-oq-z]))|envs/|actor/|deploy/)|learner/([a-qs-z]|run|report)'
forbid "devices do not include networks" learner/device/ 'learner/network/'
# Lines "folder other": a file of that folder includes one of the other. tsort names what is in a
# circle.
printf '%s\n' "${c_files[@]}" | grep -E '^(common|envs|learner|actor|deploy)/.*\.[ch]u?$' |
  xargs -r grep -HE '^ *# *include *"[a-z_]+/' |
  sed -E 's|^(.*)/[^/]*: *# *include *"(.*)/[^/"]*".*|\1 \2|' | awk '$1 != $2' | sort -u |
  tsort 2>&1 >/dev/null | report "folders include each other in a circle"
agents=$(sed -n 's/^  X(\([a-z0-9_]*\),.*/\1/p' learner/learn/algorithms.h | paste -sd '|')
printf '%s\n' "${c_files[@]}" | grep -E '^(learner|deploy|actor|common)/' |
  xargs -r grep -nE "strn?cmp\([^)]*\"($agents)\"" /dev/null |
  report "what depends on an algorithm's name stands in its row of learner/learn/algorithms.h"
forbid "the environment ABI depends on nothing" envs/env.h '[a-z]*/'

# ---- the house: what stands at the top of the repository
{ git ls-files 2>/dev/null || find_files '*'; } | cut -d/ -f1 | sort -u |
  grep -vxE '(proto|actor|learner|common|envs|deploy|scripts|tests|docs|Makefile|run_local\.sh)' |
  grep -vxE '((README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|LICENSE|VERSION|\.ci|\.[a-z-]+)' |
  report "the top of the repository has these folders and files only"

# ---- the comment that a file begins with: "Upstream: a.c, b/c.h (why). Downstream: learner/agent."
# Prints the names of files and folders that are not there, and files upstream that do not include
# the header. A name is a path from the root, from learner/ or common/, or from the file's folder.
check_streams() {
  list '*' | awk '
    FILENAME == "-" {
      known[$0] = 1
      while (sub("/[^/]*$", "")) known[$0] = 1 # its folders
      next
    }
    FNR == 1 {in_comment = /^\/\*/}
    in_comment {
      line = $0
      sub(/^ ?\/?\*+ ?/, "", line)
      comment[FILENAME] = comment[FILENAME] line " "
      if (/\*\//) in_comment = 0
    }
    /^ *# *include "/ {
      split($0, part, "\"")
      includes[FILENAME, part[2]] = 1
    }
    END {
      for (file in comment) {
        check_sentence(file, "Upstream: ")
        check_sentence(file, "Downstream: ")
      }
    }

    # The sentence that begins with `word` ends at a full stop before a blank.
    function check_sentence(file, word,   sentence, begin, count, name, i) {
      begin = index(comment[file], word)
      if (!begin) return
      sentence = substr(comment[file], begin + length(word))
      if (match(sentence, /\.( |$)/)) sentence = substr(sentence, 1, RSTART - 1)
      count = split(without_braces(sentence), name, /[ ,;:()]+/)
      for (i = 1; i <= count; i++)
        if (name[i] ~ /\.(c|cc|h|sh)$/ || name[i] ~ /^[a-z_]+\//)
          check_name(file, name[i], word == "Upstream: ")
    }

    # "a/{b,c}.h" as "a/b.h a/c.h".
    function without_braces(text,   before, after, part, count, i) {
      while (match(text, /[^ ]*[{][^}]*[}][a-z.]*/)) {
        before = substr(text, 1, RSTART - 1)
        after = substr(text, RSTART + RLENGTH)
        split(substr(text, RSTART, RLENGTH), part, /[{}]/)
        text = before
        count = split(part[2], item, ",")
        for (i = 1; i <= count; i++) text = text part[1] item[i] part[3] " "
        text = text after
      }
      return text
    }

    # Whether a file does, or the header of a .c file; what is no C file need not.
    function does_include(path, header,   own) {
      own = path
      sub(/\.c$/, ".h", own)
      return path !~ /\.[ch]$/ || (path, header) in includes || (own, header) in includes
    }

    # "a*.c" stands for the files that fit, "a/" for a folder.
    function check_name(file, name, upstream,   folder, base, pattern, path, found, i) {
      folder = file
      sub("[^/]*$", "", folder)
      sub("/$", "", name)
      split("|learner/|common/|" folder, base, "|")
      for (i = 1; i <= 4 && !found; i++) {
        pattern = base[i] name
        gsub(/\./, "[.]", pattern)
        gsub(/\*/, "[^/]*", pattern)
        for (path in known) {
          if (path !~ "^" pattern "$") continue
          found = 1
          if (upstream && file ~ /\.h$/ && !does_include(path, file))
            print file ": " path " is upstream, but does not include it"
        }
      }
      if (!found) print file ": there is no " name
    }' - "${c_files[@]}" | sort
}
check_streams | report "what is upstream or downstream is there, and includes the header"
printf '%s\n' "${c_files[@]}" | grep '\.h$' | xargs -r awk 'FNR == 1 && !/^\/\*/ {print FILENAME}' |
  report "a header begins with the comment that tells its purpose"

# ---- lengths (in characters) and tabs
awk 'length($0) > 100 {print FILENAME ":" FNR ": " length($0) " columns"}' \
  "${c_files[@]}" "${shell_files[@]}" "${design_pages[@]}" | report "lines of at most 100 columns"
awk 'FNR > 150 {lines[FILENAME] = FNR}
  END {for (page in lines) print page ": " lines[page] " lines"}' "${design_pages[@]}" /dev/null |
  report "pages of the design of at most 150 lines"
grep -nP '\t' "${c_files[@]}" /dev/null | report "no tabs in C"
grep -nP '[ \t]+$' "${c_files[@]}" "${shell_files[@]}" /dev/null |
  report "no blanks at the ends of lines"
awk 'FNR == 1 {start = 0}
  /^[a-zA-Z_].*\{$/ && !/^(struct|enum|union|typedef|extern "C")[^(]*\{$/ && !/= *\{$/ {
    start = FNR
    name = $0
  }
  /^}/ && start {
    lines = FNR - start + 1
    if (lines > 80) print FILENAME ":" start ": " lines " lines: " name
    start = 0
  }' \
  "${c_files[@]}" | report "functions of at most 80 lines"

# ---- format and syntax
if name=$(formatter); then
  "$name" --dry-run -Werror "${c_files[@]}" 2>&1 |
    grep -E ': (error|warning):' | cut -d: -f1 | sort | uniq -c |
    report "clang-format (make format mends it); lines per file"
else
  echo "the format is not checked: it is checked with clang-format 14 only, and here is" \
    "$(clang-format --version 2>/dev/null | grep -o 'version [0-9]*' || echo none)"
fi
for file in "${shell_files[@]}"; do bash -n "$file" 2>&1; done | report "shell syntax"

# ---- shell scripts
grep -LE '^export LC_ALL=C\.UTF-8|^\. .*/lib\.sh"$' "${shell_files[@]}" |
  report "a script exports LC_ALL=C.UTF-8, itself or by a lib.sh: others read numbers differently"
grep -nE 'dirname "\$(0|\{BASH_SOURCE\[0\]\})"' "${shell_files[@]}" /dev/null |
  report 'a script finds its own folder by readlink -f "${BASH_SOURCE[0]}", for symbolic links'

# ---- subjects of the commits after this one, merges excepted. In a tarball or a shallow clone that
# does not have it they are not checked. LINT_COMMITS_AFTER names another one, for tests.
after=${LINT_COMMITS_AFTER:-eceb92b244b685e69da44019c32f19542a1fed8c}
if git merge-base --is-ancestor "$after" HEAD 2>/dev/null; then
  git log --no-merges --format='%h %s' "$after..HEAD" | awk '{
    subject = substr($0, index($0, " ") + 1)
    if (length(subject) > 72) print $0 ": " length(subject) " characters"
    else if (subject !~ /^[a-z0-9][a-z0-9_.,\/ -]*: [a-z]/ || subject ~ /\.$/) print $0
  }' | report "subjects of commits are \"area: imperative\", lower case, at most 72 characters"
fi

[ $failed -eq 0 ] && echo "lint: ${#c_files[@]} C files and ${#shell_files[@]} scripts are clean"
exit $failed
