// SPDX-License-Identifier: Apache-2.0
// A small entry point for processes that need errors only: the package's main one loads 460 modules of schemas and XML.
export { AppError, isAppError, messageOf } from "./app-error.ts";
