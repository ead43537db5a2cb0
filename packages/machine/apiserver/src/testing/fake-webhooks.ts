// SPDX-License-Identifier: Apache-2.0
// Fake admission webhooks. They record requests and change or reject objects as a test wants.
import type { Admission, AdmissionQuestion, Mutation } from "../admission/admission.ts";
import { copyJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** One recorded request, with copies of its objects. */
export interface AskedWebhook {
  readonly phase: "mutate" | "validate" | "delete";
  readonly question: AdmissionQuestion;
}

/** Accepts everything unless a test sets a member. */
export class FakeWebhooks implements Admission {
  readonly asked: AskedWebhook[] = [];
  /** Changes the object of each write. */
  change: ((object: KubeObject, question: AdmissionQuestion) => void) | undefined;
  /** Runs in each phase before the request is accepted. May throw to reject it. */
  before: ((asked: AskedWebhook) => Promise<void> | void) | undefined;

  async mutate(
    question: Mutation,
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    await this.#record("mutate", question);
    if (this.change === undefined) return question.object;
    const changed = copyJson(question.object);
    this.change(changed, question);
    return complete(changed);
  }

  validate(question: AdmissionQuestion): Promise<void> {
    return this.#record("validate", question);
  }

  admitDeletion(question: AdmissionQuestion): Promise<void> {
    return this.#record("delete", question);
  }

  async #record(phase: AskedWebhook["phase"], question: AdmissionQuestion): Promise<void> {
    const { object, oldObject } = question;
    const asked = {
      phase,
      question: {
        ...question,
        object: object && copyJson(object),
        oldObject: oldObject && copyJson(oldObject),
      },
    };
    this.asked.push(asked);
    await this.before?.(asked);
  }
}
