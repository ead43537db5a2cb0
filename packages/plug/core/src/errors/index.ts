// SPDX-License-Identifier: Apache-2.0
// The door for who needs errors only: the main one loads schemas and XML, 460 modules that a small process does without.
export { AppError, isAppError, messageOf } from "./app-error.ts";
