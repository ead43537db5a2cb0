// SPDX-License-Identifier: Apache-2.0
// The second door of manifests: what tests judge them by.
export { rightsOf, type Right } from "./rights.ts";
