// SPDX-License-Identifier: Apache-2.0
// The viewer's files are one script (tests/browser/browse joins them); the tests are modules of node.
'use strict';
const js = require('@eslint/js');

const names = (text) => Object.fromEntries(text.split(' ').map((n) => [n, 'readonly']));
const browser = names('document location addEventListener matchMedia getSelection navigator setTimeout scrollTo scrollY Node MouseEvent');
const rules = { ...js.configs.recommended.rules, eqeqeq: 'error', 'no-var': 'error', 'prefer-const': 'error', 'no-implicit-globals': 'off', 'no-shadow': 'off' };

module.exports = [
  { files: ['**/viewer.js'], languageOptions: { ecmaVersion: 2023, sourceType: 'script', globals: browser }, rules },
  { files: ['**/*.cjs'], languageOptions: { ecmaVersion: 2023, sourceType: 'commonjs', globals: { ...browser, ...names('require module process console __dirname getComputedStyle SVGElement NodeFilter innerWidth innerHeight requestAnimationFrame Event layOut') } }, rules: { ...rules, 'no-control-regex': 'off', 'no-misleading-character-class': 'off' } },
];
