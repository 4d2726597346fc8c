// A program of nothing: its target reads the headers that the tests share.
int main() {}
