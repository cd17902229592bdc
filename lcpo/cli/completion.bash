# Completion of `lcpo`, of the version that wrote it: lcpo completion @SHELL@ > FILE
_lcpo() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    local command="${COMP_WORDS[1]}" words="" head=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words=@COMMANDS@
    else
        case "$command $before" in
@VALUES@
        *) case "$command" in
@OPTIONS@
            esac;;
        esac
    fi
    case "$before $word" in
        --agents\ *,*) head="${word%,*},";;
    esac
    COMPREPLY=($(compgen -P "$head" -W "$words" -- "${word#"$head"}"))
}
complete -o default -F _lcpo lcpo
