# bash completion of qcalib
_qcalib()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= w
    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    case $prev in
%{bash values}
    esac
    for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $w in
            %{commands|}) command=$w; break ;;
        esac
    done
    case $command in
%{bash words}
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    case $command in
        '') COMPREPLY=($(compgen -W "%{commands } " -- "$cur") $(compgen -f -- "$cur")) ;;
        list) COMPREPLY=($(compgen -W "%{tables}" -- "$cur")) ;;
        help) COMPREPLY=($(compgen -W "%{commands } " -- "$cur")) ;;
        *) COMPREPLY=($(compgen -f -- "$cur")) ;;
    esac
}
complete -o filenames -F _qcalib qcalib
