// SPDX-License-Identifier: Apache-2.0
// Where is the program that a container runtime calls?
import { fileURLToPath } from "node:url";

/** As hack/build-native makes it; sources and what is compiled of them lie two folders below the package. */
export const PLUGIN_PROGRAM = fileURLToPath(new URL("../../build/patchbay-cni", import.meta.url));
