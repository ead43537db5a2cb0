// SPDX-License-Identifier: Apache-2.0
// Writes the forms of built-in kinds anew from the models of the Kubernetes client.
import { writeFileSync } from "node:fs";
import { SHAPES_FILE, renderShapes } from "./render-shapes.ts";

writeFileSync(SHAPES_FILE, await renderShapes());
console.log("wrote packages/apiserver/src/shapes/shapes.json");
