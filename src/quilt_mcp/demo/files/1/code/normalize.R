# Normalize counts to transcripts per million.
arguments <- commandArgs(trailingOnly = TRUE)
counts <- read.csv(arguments[1])
rates <- counts$counts / counts$length
counts$tpm <- rates / sum(rates) * 1e6
write.csv(counts, arguments[2], row.names = FALSE)
