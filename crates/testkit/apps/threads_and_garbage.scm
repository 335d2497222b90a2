;; Guile: threads that allocate under mutexes and conditions, while its collector stops them by signals again and again.
(use-modules (ice-9 threads))

(define mutex (make-mutex))
(define turn (make-condition-variable))
(define total 0)
(define finished 0)

(define (work number)
  (do ((round 0 (+ round 1))) ((= round 1000))
    (let ((garbage (make-vector 500 (list round number))))
      (with-mutex mutex
        (set! total (+ total (vector-length garbage) number)))
      (when (= 0 (modulo round 50)) (gc))))
  (with-mutex mutex
    (set! finished (+ finished 1))
    (broadcast-condition-variable turn)))

(define threads (map (lambda (number) (call-with-new-thread (lambda () (work number)))) (iota 8)))
(with-mutex mutex
  (while (< finished 8) (wait-condition-variable turn mutex)))
(for-each join-thread threads)
(format #t "collected often: ~a\n" (> (assq-ref (gc-stats) 'gc-times) 50))
(format #t "total ~a\n" total)
(display "done\n")
