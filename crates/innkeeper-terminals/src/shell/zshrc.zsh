# Reads the user's own file, then reports prompts, commands and the working directory with OSC 633 and a nonce.
__innkeeper_nonce=$INNKEEPER_NONCE
unset INNKEEPER_NONCE
ZDOTDIR=$__innkeeper_own_zdotdir
# The system's own file, such as that of macOS, puts the history into ZDOTDIR, which led here.
if [[ $HISTFILE == $__innkeeper_zdotdir/* ]]; then HISTFILE=$ZDOTDIR/${HISTFILE#$__innkeeper_zdotdir/}; fi
if [[ -r $ZDOTDIR/.zshrc ]]; then . "$ZDOTDIR/.zshrc"; fi
__innkeeper_own_zdotdir=$ZDOTDIR
ZDOTDIR=$__innkeeper_zdotdir

# Escapes a text for a report.
__innkeeper_escape() {
    emulate -L zsh
    local text=$1 out= char
    local -i i
    for ((i = 1; i <= $#text; i++)); do
        char=$text[i]
        case $char in
            '\') out+='\\' ;;
            ';') out+='\x3b' ;;
            [[:cntrl:]]) out+=$(printf '\\x%02x' "'$char") ;;
            *) out+=$char ;;
        esac
    done
    print -rn -- "$out"
}

__innkeeper_preexec() {
    print -n -- "\e]633;E;"
    __innkeeper_escape "$1"
    print -n -- ";$__innkeeper_nonce\a\e]633;C;$__innkeeper_nonce\a"
}

__innkeeper_precmd() {
    local -i code=$?
    print -n -- "\e]633;D;$code;$__innkeeper_nonce\a\e]633;P;Cwd="
    __innkeeper_escape "$PWD"
    print -n -- ";$__innkeeper_nonce\a"
    # Themes may replace the prompt at any time.
    if [[ $PS1 != *'633;A;'* ]]; then
        PS1="%{"$'\e'"]633;A;$__innkeeper_nonce"$'\a'"%}$PS1%{"$'\e'"]633;B;$__innkeeper_nonce"$'\a'"%}"
    fi
}

preexec_functions=(__innkeeper_preexec $preexec_functions)
precmd_functions=(__innkeeper_precmd $precmd_functions)
if [[ ! -o login ]]; then ZDOTDIR=$__innkeeper_own_zdotdir; fi
