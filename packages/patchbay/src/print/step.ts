// SPDX-License-Identifier: Apache-2.0
// How does a step of a waited-for change look to a person?
import { printStage, type Step } from "../change/steps.ts";
import { oneLine } from "./safe.ts";

const TIME_WIDTH = 9;

/** One line: seconds since the request, phase, and why it goes no further. */
export function printStep(step: Step): string {
  const seconds = (step.elapsedMs / 1000).toFixed(3).padStart(TIME_WIDTH);
  return `${seconds} s  ${oneLine(printStage(step))}\n`;
}
