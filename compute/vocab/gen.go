package vocab

//go:generate go -C _asm run . -pkg vocab -out ../vocab_amd64.s -stubs ../stubs_amd64.go
