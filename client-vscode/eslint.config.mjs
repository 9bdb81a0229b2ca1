import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: ['dist/', 'bundled/', 'media/', 'scripts/', 'test/host/', 'test/package/', 'test/workbench/', '.editors/'],
  },
  {
    files: ['src/**/*.ts', 'test/unit/**/*.ts', 'vitest.config.mts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      eqeqeq: 'error',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    files: ['test/unit/**/*.ts'],
    rules: {
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
  { files: ['*.mjs'], extends: [tseslint.configs.recommended] },
);
