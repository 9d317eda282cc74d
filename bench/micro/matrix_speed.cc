// int main placeholder
int main() {}
