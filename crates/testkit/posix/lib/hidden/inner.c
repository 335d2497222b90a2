/* Found only by way of libcaller.so's RUNPATH. */
int inner_answer(void) {
    return 42;
}
