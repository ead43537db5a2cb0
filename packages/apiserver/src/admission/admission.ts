// SPDX-License-Identifier: Apache-2.0
// What admission is asked, whoever answers.
import type { User } from "../auth/user.ts";
import type { Kind } from "../kinds/kind.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** What is being done. */
export type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** One question. Source: admission/v1 AdmissionRequest. */
export interface AdmissionQuestion {
  readonly kind: Kind;
  readonly subresource: string;
  readonly operation: Operation;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject | undefined;
  readonly oldObject: KubeObject | undefined;
  readonly options: Fields;
  readonly user: User;
  readonly dryRun: boolean;
  /** Warnings for the client; answers add to it. */
  readonly warnings: string[];
}

/** Those who may change or refuse a write. */
export interface Admission {
  /** The object after all changes; `complete` defaults and prunes it again after each. Throws a StatusError where it is refused. */
  mutate(
    question: AdmissionQuestion & { readonly object: KubeObject },
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject>;
  /** Throws a StatusError where it is refused. */
  validate(question: AdmissionQuestion): Promise<void>;
}
