// Builds flat files with a hash in each name, and their compressed forms beside them, once for all who ask for them.
import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {brotliCompressSync, constants, gzipSync} from 'node:zlib';

const compressed = {
  name: 'compressed',
  closeBundle() {
    for (const name of readdirSync('dist')) {
      const bytes = readFileSync(join('dist', name));
      writeFileSync(join('dist', `${name}.gz`), gzipSync(bytes, {level: 9}));
      writeFileSync(join('dist', `${name}.br`), brotliCompressSync(bytes, {params: {
        [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      }}));
    }
  },
};

export default {
  base: './',
  plugins: [compressed],
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none'},
  build: {
    target: 'es2022',
    assetsDir: '',
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  // While one works on it: `npx vite`, with the API of a local stack behind it.
  server: {proxy: {'/v1': process.env.DUETIME_URL, '/readyz': process.env.DUETIME_URL}},
};
