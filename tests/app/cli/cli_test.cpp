int x();
