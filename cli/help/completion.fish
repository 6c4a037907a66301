# fish completion of qcalib
complete -c qcalib -n __fish_use_subcommand -a '%{commands }'
complete -c qcalib -n '__fish_seen_subcommand_from list' -f -a '%{tables}'
%{fish options}
