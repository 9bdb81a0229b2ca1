import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/unit/**/*.test.ts'],
    reporters: ['default', './test/unit/reporter.ts'],
    restoreMocks: true,
  },
});
