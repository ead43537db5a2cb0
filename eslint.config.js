// SPDX-License-Identifier: Apache-2.0
// One flat configuration; the size rules hold for the whole tree (ADR 0001). Rules that need types are in .oxlintrc.json
// (ADR 0114).
import comments from "@eslint-community/eslint-plugin-eslint-comments/configs";
import vitest from "@vitest/eslint-plugin";
import regexp from "eslint-plugin-regexp";
import tsdoc from "eslint-plugin-tsdoc";
import tseslint from "typescript-eslint";

const PURE = [
  "packages/plug/api/src/**",
  "packages/plug/core/src/**",
  "packages/plug/domain/src/**",
];
const TESTS = ["**/*.test.ts", "tests/**", "packages/**/src/testing/**"];
const AMBIENT = [
  { name: "Date", message: "Take a Clock (ports/clock)." },
  { name: "setTimeout", message: "Take a Clock (ports/clock)." },
  { name: "setInterval", message: "Nothing polls; take a Clock for a wait." },
  { name: "process", message: "Only main.ts, config.ts and os may name the process." },
  { name: "console", message: "Take a Logger, or print from the command line's print folder." },
];

export default tseslint.config(
  { ignores: ["**/dist/**", "**/build/**", "node_modules/**", ".cache/**", "coverage/**"] },
  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [...tseslint.configs.strict, comments.recommended],
    plugins: { regexp, tsdoc },
    rules: {
      "@eslint-community/eslint-comments/require-description": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/explicit-module-boundary-types": "error",
      complexity: ["error", 10],
      "max-depth": ["error", 3],
      "max-lines": ["error", { max: 400, skipBlankLines: false, skipComments: false }],
      "max-lines-per-function": ["error", { max: 50, skipComments: true, skipBlankLines: true }],
      "max-params": ["error", 3],
      "no-restricted-globals": ["error", ...AMBIENT],
      "no-restricted-properties": [
        "error",
        { object: "Math", property: "random", message: "Take randomness as a parameter." },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "ExportAllDeclaration[exported=null]", message: "Name what you export." },
        { selector: "ExportDefaultDeclaration", message: "Named exports only." },
        {
          selector:
            "CallExpression[callee.object.name='log'][callee.property.name=/^(debug|info|warn|error)$/] > TemplateLiteral.arguments:first-child",
          message: "The message is constant; what varies goes into fields.",
        },
      ],
      // Texts come from tenants, guests and registries: none may match in two ways, nor be begun anew at each letter.
      "regexp/no-super-linear-backtracking": ["error", { report: "potential" }],
      "regexp/no-super-linear-move": ["error", { report: "potential", ignorePartial: false }],
      "tsdoc/syntax": "error",
    },
  },
  {
    files: PURE,
    ignores: TESTS,
    rules: {
      "no-restricted-imports": [
        "error",
        { patterns: [{ regex: "^node:", message: "Pure code does no I/O." }] },
      ],
    },
  },
  {
    files: [
      "packages/adapters/os/src/**",
      "packages/**/src/main.ts",
      "packages/kit/daemon/src/run-daemon.ts",
      "packages/**/src/**/config.ts",
      // A page has no ports: the browser is one.
      "packages/panel/src/browser/clock.ts",
    ],
    rules: { "no-restricted-globals": "off" },
  },
  {
    files: ["**/*.test.ts", "tests/**"],
    plugins: { vitest },
    rules: {
      ...vitest.configs.recommended.rules,
      "vitest/expect-expect": [
        "error",
        { assertFunctionNames: ["expect", "expect*", "fc.assert", "eventually"] },
      ],
      "vitest/no-focused-tests": "error",
    },
  },
  {
    files: TESTS,
    rules: {
      "@typescript-eslint/explicit-module-boundary-types": "off",
      "@typescript-eslint/no-non-null-assertion": "error",
      // Each `?.` of an assertion counts as a branch.
      complexity: "off",
      "max-lines-per-function": "off",
      "no-restricted-globals": "off",
      "no-restricted-properties": "off",
    },
  },
  {
    files: ["hack/**", "tests/perf/**", "tests/mutation/**", "vitest.config.ts"],
    rules: { "no-restricted-globals": "off", "no-restricted-syntax": "off" },
  },
);
