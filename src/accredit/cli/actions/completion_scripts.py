"""The scripts of `accredit completion`, by shell. Each runs the `accredit` of the PATH, never one in the current
folder, and gives the answers to the shell as plain words."""

_BASH = r"""# bash completion of accredit: put this into ~/.bash_completion, or a file of /etc/bash_completion.d
_accredit() {
    local kind word
    COMPREPLY=()
    {
        IFS= read -r kind
        if [[ $kind == files ]]; then
            compopt -o default
        else
            while IFS= read -r word; do COMPREPLY+=("$word"); done
        fi
    } < <(command accredit completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _accredit accredit
"""

_ZSH = r"""#compdef accredit
# zsh completion of accredit: put this into a file _accredit of a folder of your fpath, or evaluate it in ~/.zshrc
_accredit() {
    local line
    local -a lines names shown
    lines=("${(@f)$(command accredit completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[1]} == files ]]; then
        [[ $PREFIX == --*=* ]] && compset -P '--*='
        _files
        return
    fi
    for line in "${(@)lines[2,-1]}"; do
        names+=("${line%%$'\t'*}")
        line="${line%%$'\t'*}  ${line#*$'\t'}"
        shown+=("${line[1,COLUMNS-1]}")
    done
    (( $#names )) && compadd -l -d shown -a names
}
if [[ ${funcstack[1]} == _accredit ]]; then
    _accredit "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _accredit accredit
fi
"""

_FISH = r"""# fish completion of accredit: put this into ~/.config/fish/completions/accredit.fish
function __accredit_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (command accredit completion fish -- $words[2..-1] 2>/dev/null)
    if test "$lines[1]" = files
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $lines[2..-1]
    end
end
complete -c accredit -e
complete -c accredit -f -a '(__accredit_candidates)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
