;;; SBCL: threads that allocate under a mutex and a condition, while its collector stops them by signals again and again.
(defvar *mutex* (sb-thread:make-mutex))
(defvar *turn* (sb-thread:make-waitqueue))
(defvar *total* 0)
(defvar *finished* 0)
(defvar *collections* 0)

;;; Whether there was a collection between two looks: each one makes a new epoch. (Hooks after a collection run in a thread of their
;;; own, which may see many at once.)
(defun epoch () sb-kernel::*gc-epoch*)

;;; Threads that collect at the same moment may all miss the one collection there is.
(defun collect ()
  (let ((before (epoch)))
    (sb-ext:gc)
    (unless (eq before (epoch))
      (sb-thread:with-mutex (*mutex*) (incf *collections*)))))

(defun work (number)
  (dotimes (round 1000)
    (let ((garbage (make-array 500 :initial-element (list round number))))
      (sb-thread:with-mutex (*mutex*)
        (incf *total* (+ (length garbage) number)))
      (when (zerop (mod round 10)) (collect))))
  (loop repeat 10000 until (> *collections* 10) do (collect))
  (sb-thread:with-mutex (*mutex*)
    (incf *finished*)
    (sb-thread:condition-broadcast *turn*)))

(let ((threads (loop for number below 8
                     collect (let ((number number)) (sb-thread:make-thread (lambda () (work number)))))))
  (sb-thread:with-mutex (*mutex*)
    (loop while (< *finished* 8) do (sb-thread:condition-wait *turn* *mutex*)))
  (mapc #'sb-thread:join-thread threads)
  (format t "collected often: ~a~%" (> *collections* 10))
  (format t "total ~a~%done~%" *total*)
  (finish-output))
