#compdef qcalib
_qcalib() {
    local command=quantize w
    for w in ${words[2,CURRENT-1]}; do
        case $w in
            %{commands|}) command=$w; break ;;
        esac
    done
    if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
        local -a commands=(
%{zsh commands}
        )
        _describe command commands
        _files
        return
    fi
    case $command in
%{zsh options}
    esac
}
_qcalib "$@"
