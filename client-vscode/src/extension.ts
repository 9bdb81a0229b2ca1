// What the editor calls first and last.

export function activate(): void {}
