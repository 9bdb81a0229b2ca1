// The last line of a run, in the words that every set of tests of this project ends with.

import type { Reporter, TestModule } from 'vitest/node';

export default class LastLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const passed = tests.filter((test) => test.result().state === 'passed').length;
    const broken = modules.reduce((count, module) => count + module.errors().length, errors.length);
    const failed = tests.filter((test) => test.result().state === 'failed').length + broken;
    // After what the default reporter prints at the same moment.
    process.once('exit', () => process.stdout.write(`${passed} passed, ${failed} failed\n`));
  }
}
