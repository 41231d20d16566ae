// The error of every layer that a command or a start ends with.

/**
 * One line for the operator, and an exit code: 1 refused, 2 wrong usage or settings, 3 unreachable, 4 a verification
 * failed, 70 storage failed.
 */
export class ExitError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}
